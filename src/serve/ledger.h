#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "serve/evaluation.h"

namespace lathe::serve {

/// What became of a submission.
enum class Admission {
  kNew,      ///< nobody has asked before, or the last answer did not last: it is to be queued
  kJoined,   ///< it is on its way already: the client waits with the others, or with itself
  kKnown,    ///< its verdict is there
  kRefused,  ///< it would be new, and there are too many unfinished ones
};

/// What became of a withdrawal.
struct Withdrawal {
  bool withdrawn = false;  ///< the client had an unfinished request
  bool unwanted = false;   ///< and no other client has one: the work may stop
};

/// An unfinished request: what a queue is built from.
struct Pending {
  Submission submission;  ///< without the candidate's text
  int lost_workers = 0;
};

/// An unfinished evaluation as a worker needs it.
struct Wanted {
  Submission submission;  ///< of the client that asked first
  int lost_workers = 0;
  /// Every client that waits, with its deadline or 0.
  std::vector<std::pair<std::string, std::int64_t>> deadlines_unix_ms;
};

struct StoredTask {
  Digest digest;
  std::string name;
  std::string text;
};

/// The changes of one transaction, made in the order of the members.
struct LedgerChanges {
  std::vector<StoredTask> tasks;  ///< known ones change nothing
  /// Evaluations each of which has lost a worker.
  std::vector<Digest> lost_workers;
  /// Each ends its evaluation and every unfinished request for it, which get the next number in the
  /// order of completion. Of several answers the first counts.
  struct End {
    Digest id;
    Conclusion conclusion;
  };
  std::vector<End> ends;
  /// Each ends one client's unfinished request as kCancelled or kExpired.
  struct Withdraw {
    std::string client;
    Digest id;
    State state = State::kCancelled;
  };
  std::vector<Withdraw> withdrawals;
  /// Clients' requests. One of the same client and key that is there is not entered again:
  /// unfinished ones are kJoined, answered ones kKnown; one that was withdrawn, or whose answer did
  /// not last, starts afresh.
  struct Entry {
    Submission submission;
    std::int64_t max_own = 0;  ///< unfinished requests of this client, beyond which nothing new is wanted
  };
  std::vector<Entry> submissions;
  std::int64_t max_all = 0;  ///< the same for all clients together
  std::int64_t unix_ms = 0;  ///< now

  bool empty() const {
    return tasks.empty() && lost_workers.empty() && ends.empty() && withdrawals.empty() &&
           submissions.empty();
  }
};

/// What became of them, each at its place.
struct LedgerOutcome {
  std::vector<int> lost_workers;  ///< counted so far; 0 for an unknown evaluation
  struct Ended {
    bool first = false;
    std::vector<std::string> clients;  ///< whose requests this has ended
  };
  std::vector<Ended> ends;
  std::vector<Withdrawal> withdrawals;
  std::vector<Admission> submissions;
};

/// A client's finished requests numbered above `sequence`, in order of completion.
struct FinishedQuery {
  std::string client;
  std::int64_t sequence = 0;
  int limit = 0;
};

/// The service's durable truth: who asked for what, and each evaluation's one answer. Everything
/// else (queue, leases, waiting clients) can be lost and is built again from pending(). Calls come
/// from one thread at a time, and each costs a server one or two round trips, however much it asks.
/// docs/service.md has the contract; tests/serve/ledger_contract.h has it as tests for every
/// implementation.
class Ledger {
 public:
  virtual ~Ledger() = default;
  /// One transaction: when this returns Ok everything in it survives kill -9 and a power cut, else
  /// nothing of it has happened, or where a connection was lost all of it may have: then it may be
  /// asked for again.
  virtual Result<LedgerOutcome> write(const LedgerChanges& changes) = 0;

  using Name = std::pair<std::string, Digest>;  ///< of a request: client and evaluation
  virtual Result<std::vector<std::optional<Report>>> find(std::span<const Name> names) = 0;
  virtual Result<std::vector<std::vector<Report>>> finished(std::span<const FinishedQuery> queries) = 0;
  virtual Result<std::vector<Pending>> pending() = 0;
  /// Those of the evaluations that are unfinished and wanted.
  virtual Result<std::vector<Wanted>> wanted(std::span<const Digest> ids) = 0;
  /// Unfinished requests whose deadline is over by more than `grace_ms`, by the ledger's clock,
  /// some at a time.
  virtual Result<std::vector<Name>> overdue(std::int64_t grace_ms) = 0;
  virtual Result<std::vector<std::string>> candidates(std::span<const Digest> ids) = 0;  ///< kNotFound
  virtual Result<std::optional<StoredTask>> task(const Digest& digest) = 0;
  virtual Result<std::vector<StoredTask>> tasks() = 0;  ///< without their texts, by name
  virtual Result<std::int64_t> unfinished() = 0;        ///< requests of all clients
};

}  // namespace lathe::serve
