#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"

namespace lathe::serve {

/// What a worker can evaluate.
struct WorkerKind {
  std::string device_kind;
  std::string gym_version;
  auto operator<=>(const WorkerKind&) const = default;
};

/// One evaluation that waits for a worker of its kind.
struct WorkItem {
  Digest id;
  Digest task;
  WorkerKind kind;
  std::string client;  ///< whose share it counts against: the first to ask
  int priority = 0;
  std::int64_t waiting_since_ns = 0;  ///< by the queue's clock
  int lost_workers = 0;
};

/// The right of one worker to evaluate an item until the lease ends. Numbers are never reused, so
/// an answer under an old lease is recognised.
struct Lease {
  std::int64_t number = 0;
  WorkItem item;
};

struct QueueCounts {
  struct Class {
    std::int64_t waiting = 0;
    double oldest_seconds = 0;
  };
  std::map<int, Class> by_priority;
  std::map<std::string, std::int64_t> by_client;  ///< waiting and leased
  std::int64_t waiting = 0;
  std::int64_t leased = 0;
  std::int64_t expired_leases = 0;  ///< since the start
};

/// Which worker works on what. An item that was added stays until finish() or drop(): a worker that
/// ends, hangs or is cut off gives it back. An item may go to a second worker after the first one's
/// lease has ended; the ledger keeps one answer. Called by one thread at a time. docs/service.md
/// has the contract; tests/serve/queue_contract.h has it as tests for every implementation.
class WorkQueue {
 public:
  virtual ~WorkQueue() = default;

  /// An item whose id is waiting or leased already is not added again.
  virtual Status add(const WorkItem& item) = 0;
  /// Leases at most `most` items to a worker, which keeps them as long as it renews. An item whose
  /// worker was lost before goes alone to a worker that holds nothing else, so that what ends that
  /// worker is known.
  virtual Result<std::vector<Lease>> take(const std::string& worker, const WorkerKind& kind, int most) = 0;
  /// A heartbeat: restarts the time of all the worker's leases.
  virtual Status renew(const std::string& worker) = 0;
  /// Ends a lease and removes its item. False if the lease had already ended: another worker has
  /// the item, but the answer may be used. `seconds`: the item's cost, for the fair share.
  virtual Result<bool> finish(std::int64_t lease, double seconds) = 0;
  /// Ends all leases of a worker, puts their items back in line and returns these. `lost`: the
  /// worker ended unasked, so each item counts one more lost worker.
  virtual Result<std::vector<WorkItem>> release(const std::string& worker, bool lost) = 0;
  /// Removes an item, waiting or leased. Returns the lease that this ended, or 0.
  virtual Result<std::int64_t> drop(const Digest& id) = 0;
  /// Workers whose heartbeats have stopped; release() is up to the caller.
  virtual Result<std::vector<std::string>> silent_workers() = 0;
  virtual Result<bool> is_leased(const Digest& id) = 0;
  /// For how long its worker has had it; 0 where none has.
  virtual Result<double> leased_seconds(const Digest& id) = 0;
  virtual Result<QueueCounts> counts() = 0;
};

}  // namespace lathe::serve
