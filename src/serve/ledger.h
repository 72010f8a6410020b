#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "serve/evaluation.h"

namespace lathe::serve {

/// What became of a submission.
enum class Admission {
  kNew,         ///< not asked before, or the last answer was not lasting: it is to be queued
  kJoined,      ///< already queued or running: the client waits for the same evaluation
  kKnown,       ///< its verdict is known
  kRefused,     ///< it would be new, but there are too many unfinished ones of all clients
  kRefusedOwn,  ///< it would be new, but its client has too many unfinished ones
};
inline bool is_refused(Admission admission) {
  return admission == Admission::kRefused || admission == Admission::kRefusedOwn;
}

/// What became of a withdrawal.
struct Withdrawal {
  bool withdrawn = false;  ///< the client had an unfinished request, of that name where one was given
  bool ended = false;      ///< and no other name of the client's keeps it
  bool unwanted = false;   ///< and no other client waits for it: the work may stop
  std::int64_t deadline_unix_ms = 0;  ///< unless ended: the latest of its other names
};

/// An unfinished request: what a queue is built from.
struct Pending {
  Submission submission;  ///< without the candidate's text
  int lost_workers = 0;
};

/// An unfinished evaluation as a worker needs it.
struct Wanted {
  Submission submission;  ///< that of the first client
  int lost_workers = 0;
  /// Every waiting client, with its deadline or 0.
  std::vector<std::pair<std::string, std::int64_t>> deadlines_unix_ms;
};

struct StoredTask {
  Digest digest;
  std::string name;
  std::string text;
};

/// The changes of one transaction, applied in the order of the members.
struct LedgerChanges {
  using Name = std::pair<std::string, Digest>;  ///< identifies a request: client and evaluation
  std::vector<StoredTask> tasks;                ///< those already stored are ignored
  /// Evaluations whose worker was lost, once for each loss.
  std::vector<Digest> lost_workers;
  /// Ends an evaluation and every unfinished request for it, which get the next numbers in the
  /// order of completion. Of several answers the first counts.
  struct End {
    Digest id;
    Conclusion conclusion;
  };
  std::vector<End> ends;
  /// Ends one client's unfinished request as kCancelled or kExpired.
  struct Withdraw {
    std::string client;
    Digest id;
    State state = State::kCancelled;
    /// That has passed: a request with a later one by now stays. 0: it is ended whatever it has.
    std::int64_t deadline_unix_ms = 0;
    /// Only this name of the request, which ends with the last of its names whose deadline has not
    /// passed. Empty: the request, whatever names it has.
    std::string name = {};
  };
  std::vector<Withdraw> withdrawals;
  /// A client's request. An equal one of the same client is not entered twice: while unfinished it
  /// is kJoined, and the later of the deadlines holds; once answered kKnown; if it was withdrawn or
  /// its answer was not lasting, it starts afresh. A name is entered with it unless it is refused;
  /// one that the request has already is given the details and the later of the deadlines.
  struct Entry {
    Submission submission;
    std::int64_t max_own = 0;  ///< most unfinished requests of this client; further ones are kRefusedOwn
  };
  std::vector<Entry> submissions;
  /// Requests to read once all is done, which costs less than to ask for them later.
  std::vector<Name> looks;
  std::int64_t max_all = 0;  ///< most of all clients together; further ones are kRefused
  std::int64_t unix_ms = 0;  ///< now
  /// Whether the ledger takes what a submission and its verdict need: writes 64 KiB of no meaning,
  /// and leaves nothing of them. Less may fit into room that files have already.
  bool probe = false;

  bool empty() const {
    return !probe && tasks.empty() && lost_workers.empty() && ends.empty() && withdrawals.empty() &&
           submissions.empty();
  }
};

/// The outcome of each change, in the same order. `looks` may be empty: then find() them.
struct LedgerOutcome {
  std::vector<int> lost_workers;  ///< total so far; 0 for an unknown evaluation
  struct Ended {
    bool first = false;
    std::vector<std::string> clients;  ///< whose requests this has ended
  };
  std::vector<Ended> ends;
  std::vector<Withdrawal> withdrawals;
  std::vector<Admission> submissions;
  std::vector<std::int64_t> deadlines_unix_ms;  ///< of the submissions, as the requests have them now
  std::vector<std::optional<Report>> looks;
};

/// Of two deadlines; 0 is none, which is the latest.
inline std::int64_t later_deadline(std::int64_t a_unix_ms, std::int64_t b_unix_ms) {
  return a_unix_ms == 0 || b_unix_ms == 0 ? 0 : std::max(a_unix_ms, b_unix_ms);
}

/// Tasks that only refused requests have are not kept. `admissions` are those of the submissions.
inline std::vector<StoredTask> tasks_to_keep(const LedgerChanges& changes,
                                             std::span<const Admission> admissions) {
  std::set<Digest> taken, refused;
  for (std::size_t i = 0; i < admissions.size(); ++i)
    (is_refused(admissions[i]) ? refused : taken).insert(changes.submissions[i].submission.key.task);
  std::vector<StoredTask> kept;
  for (const StoredTask& task : changes.tasks)
    if (taken.contains(task.digest) || !refused.contains(task.digest)) kept.push_back(task);
  return kept;
}

/// A client's finished requests numbered above `sequence`, in order of completion.
struct FinishedQuery {
  std::string client;
  std::int64_t sequence = 0;
  int limit = 0;
};

struct NameQuery {
  std::string client;
  std::string name;
  std::optional<Digest> id = {};  ///< nullopt: the request that was given the name last
  auto operator<=>(const NameQuery&) const = default;
};

/// The service's durable state: who asked for what, and each evaluation's single answer. Everything
/// else (queue, leases, waiting clients) may be lost and is rebuilt from pending(). Called by one
/// thread at a time; each call costs one or two round trips to a server, however much it asks for.
/// docs/service.md has the contract; tests/serve/ledger_contract.h has it as tests for every
/// implementation.
class Ledger {
 public:
  virtual ~Ledger() = default;
  /// One transaction. Once this returns Ok, all of it survives kill -9 and a power cut. After an
  /// error none of it has happened, except that after a lost connection all of it may have;
  /// repeating it is safe.
  virtual Result<LedgerOutcome> write(const LedgerChanges& changes) = 0;

  using Name = LedgerChanges::Name;
  virtual Result<std::vector<std::optional<Report>>> find(std::span<const Name> names) = 0;
  virtual Result<std::vector<std::optional<NamedReport>>> find_named(std::span<const NameQuery> queries) = 0;
  virtual Result<std::vector<std::vector<Report>>> finished(std::span<const FinishedQuery> queries) = 0;
  virtual Result<std::vector<Pending>> pending() = 0;
  /// The evaluations among `ids` that are unfinished and that some client waits for.
  virtual Result<std::vector<Wanted>> wanted(std::span<const Digest> ids) = 0;
  /// Unfinished requests whose deadline passed more than `grace_ms` ago by the ledger's clock, a
  /// limited number at a time.
  virtual Result<std::vector<Name>> overdue(std::int64_t grace_ms) = 0;
  /// Forgets finished requests that ended before, `most` at a time, and the evaluations that
  /// nobody's request is left of. How many requests.
  virtual Result<std::int64_t> forget(std::int64_t ended_before_unix_ms, int most) = 0;
  virtual Result<std::vector<std::string>> candidates(std::span<const Digest> ids) = 0;  ///< kNotFound
  virtual Result<std::optional<StoredTask>> task(const Digest& digest) = 0;
  virtual Result<std::vector<StoredTask>> tasks() = 0;  ///< without their texts, by name
  virtual Result<std::int64_t> unfinished() = 0;        ///< requests of all clients
};

}  // namespace lathe::serve
