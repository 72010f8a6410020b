#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/evaluation.h"

namespace lathe::serve {

/// What admit() found.
enum class Admission {
  kNew,      ///< nobody has asked before, or the last answer did not last: it is to be queued
  kJoined,   ///< it is on its way already: the client waits with the others, or with itself
  kKnown,    ///< its verdict is there
  kRefused,  ///< it would be new, and new ones are not wanted
};

/// What withdraw() found.
struct Withdrawal {
  bool withdrawn = false;  ///< the client had an unfinished request
  bool unwanted = false;   ///< and no other client has one: the work may stop
};

/// An unfinished request: what a queue is built from.
struct Pending {
  Submission submission;  ///< without the candidate's text
  int lost_workers = 0;
};

struct StoredTask {
  Digest digest;
  std::string name;
  std::string text;
};

/// The changes of one transaction.
class LedgerWriter {
 public:
  virtual ~LedgerWriter() = default;
  virtual Status add_task(const StoredTask& task) = 0;
  /// Enters a client's request. `may_add`: new work is wanted. A request of the same client and key
  /// that is there is not entered again: unfinished ones are kJoined, answered ones kKnown; one
  /// that was withdrawn, or whose answer did not last, starts afresh.
  virtual Result<Admission> admit(const Submission& submission, bool may_add) = 0;
  /// Counts a worker that was lost while it had the evaluation; gives the count.
  virtual Result<int> count_lost_worker(const Digest& id) = 0;
  /// Ends an evaluation and every unfinished request for it, which get the next numbers in the
  /// order of completion. False, and nothing changes, if it is concluded already: of several
  /// answers the first counts.
  virtual Result<bool> conclude(const Digest& id, const Conclusion& conclusion, std::int64_t unix_ms) = 0;
  /// Ends one client's unfinished request as kCancelled or kExpired.
  virtual Result<Withdrawal> withdraw(const std::string& client, const Digest& id, State state,
                                      std::int64_t unix_ms) = 0;
};

/// The service's durable truth: who asked for what, and each evaluation's one answer. Everything
/// else (queue, leases, waiting clients) can be lost and is built again from pending(). Calls come
/// from one thread at a time. docs/service.md has the contract; tests/serve/ledger_contract.h has
/// it as tests for every implementation.
class Ledger {
 public:
  virtual ~Ledger() = default;
  /// Runs `change` in one transaction: when this returns Ok everything in it survives kill -9 and a
  /// power cut, else nothing of it has happened.
  virtual Status write(const std::function<Status(LedgerWriter&)>& change) = 0;

  virtual Result<std::optional<Report>> find(const std::string& client, const Digest& id) = 0;
  /// The client's finished requests numbered above `sequence`, in order of completion.
  virtual Result<std::vector<Report>> finished_after(const std::string& client, std::int64_t sequence,
                                                     int limit) = 0;
  virtual Result<std::vector<Pending>> pending() = 0;
  virtual Result<std::string> candidate(const Digest& id) = 0;  ///< its text; kNotFound
  virtual Result<std::optional<StoredTask>> task(const Digest& digest) = 0;
  virtual Result<std::vector<StoredTask>> tasks() = 0;  ///< without their texts, by name
};

}  // namespace lathe::serve
