#pragma once

#include <cstdint>
#include <string>

#include "base/digest.h"
#include "record/verdict.h"

namespace lathe::serve {

/// Identifies an evaluation, whichever client asks for it. Equal keys share one evaluation and one
/// verdict; everything that may change a verdict is in the key, so no answer is ever stale.
struct EvaluationKey {
  Digest task;
  Digest candidate;
  Depth depth = Depth::kScreen;
  std::string device_kind;  ///< "cpu", "cuda", "host:cpu", "fake"
  std::string gym_version;

  /// Names the evaluation in URLs, in logs and on workers.
  Digest id() const;
};

/// A client's own name for a request. Several names may share one request, and each ends by itself.
struct Naming {
  std::string name;     ///< empty: none
  std::string details;  ///< of whoever names it: returned as it is
};

/// One client's request for a verdict.
struct Submission {
  EvaluationKey key;
  std::string candidate;  ///< its text
  std::string client;
  std::string tag;  ///< chosen by the client, returned with the answer
  Naming naming = {};
  std::string trace;                   ///< id of the HTTP request, logged by every process
  int priority = 0;                    ///< higher first, among the same client's requests
  std::int64_t deadline_unix_ms = 0;   ///< 0: none
  std::int64_t submitted_unix_ms = 0;  ///< for display and ages
};

enum class State { kQueued, kRunning, kDone, kFailed, kCancelled, kExpired };
std::string_view name(State state);  ///< "queued", ...
inline bool is_final(State state) { return state != State::kQueued && state != State::kRunning; }

/// The error of what an older version of the gym was asked: there is nobody left to answer it.
inline constexpr const char* kOutdated = "the gym has been updated since: submit it again";

/// How an evaluation ended: with a verdict (kDone), or with an error that the candidate did not
/// cause (kFailed).
struct Conclusion {
  State state = State::kDone;
  Verdict verdict = {};    ///< if kDone
  std::string error = {};  ///< if kFailed: one sentence, without paths

  /// Whether later requests get this answer; otherwise the work is done again.
  bool lasting() const { return state == State::kDone && verdict.outcome != Outcome::kInfra; }
};

/// A client's request as the ledger knows it.
struct Report {
  Digest id;
  EvaluationKey key;
  State state = State::kQueued;  ///< the ledger does not know kRunning
  std::string tag;
  int priority = 0;
  std::int64_t submitted_unix_ms = 0;
  std::int64_t finished_unix_ms = 0;
  std::int64_t sequence = 0;  ///< order of completion, from 1; 0 while unfinished
  std::string verdict;        ///< JSON; empty unless done
  std::string error;
};

/// A request by one of its names: what that name was given alone, and what became of the request.
struct NamedReport {
  Report report;  ///< of the request
  std::string details;
  std::int64_t submitted_unix_ms = 0;
  std::int64_t deadline_unix_ms = 0;   ///< 0: none
  std::int64_t cancelled_unix_ms = 0;  ///< 0: it is not
};

/// The report as it is for that name: its own withdrawal and its own deadline come before what
/// became of the request.
Report own_report(const NamedReport& named, std::int64_t now_unix_ms);

}  // namespace lathe::serve
