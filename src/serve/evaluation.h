#pragma once

#include <cstdint>
#include <string>

#include "base/digest.h"
#include "record/verdict.h"

namespace lathe::serve {

/// What is to be found out, whoever asks. Equal keys have one evaluation and one verdict; whatever
/// may change a verdict is in the key, so no answer is ever stale.
struct EvaluationKey {
  Digest task;
  Digest candidate;
  Depth depth = Depth::kScreen;
  std::string device_kind;  ///< "cpu", "cuda", "fake"
  std::string gym_version;

  /// The evaluation's name everywhere: in URLs, logs, on workers.
  Digest id() const;
};

/// One client's wish to know.
struct Submission {
  EvaluationKey key;
  std::string candidate;  ///< its text
  std::string client;
  std::string tag;                     ///< the client's own, given back with the answer
  std::string trace;                   ///< of the HTTP request, in the logs of every process
  int priority = 0;                    ///< higher first, among the client's own
  std::int64_t deadline_unix_ms = 0;   ///< 0: none
  std::int64_t submitted_unix_ms = 0;  ///< for display and ages
};

enum class State { kQueued, kRunning, kDone, kFailed, kCancelled, kExpired };
std::string_view name(State state);  ///< "queued", ...
inline bool is_final(State state) { return state != State::kQueued && state != State::kRunning; }

/// How an evaluation ended: with a verdict (kDone), or with an error that is not the candidate's
/// (kFailed).
struct Conclusion {
  State state = State::kDone;
  Verdict verdict = {};    ///< of kDone
  std::string error = {};  ///< of kFailed: one sentence, without paths

  /// Whether the next client that asks gets this answer; else the work is done again.
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

}  // namespace lathe::serve
