#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"

namespace lathe::serve {

/// What a worker can do.
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
  std::string client;  ///< whose share it counts against: the first that asked
  int priority = 0;
  std::int64_t waiting_since_ns = 0;  ///< by the queue's clock
  int lost_workers = 0;
};

/// The right of one worker to evaluate an item until the lease is over. Numbers are never used
/// twice, so an answer under an old lease is known for what it is.
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

/// Who works on what. It promises that an item that was added stays until finish() or drop(): a
/// worker that ends, hangs or is cut off gives it back. It may hand an item to two workers, one
/// after the other's lease is over; the ledger keeps one answer. Calls come from one thread at a
/// time. docs/service.md has the contract; tests/serve/queue_contract.h has it as tests for every
/// implementation.
class WorkQueue {
 public:
  virtual ~WorkQueue() = default;

  /// An item whose id is waiting or leased already is not added again.
  virtual Status add(const WorkItem& item) = 0;
  /// At most `most` items for a worker, which holds them while it renews. An item that has lost a
  /// worker before is given alone, to a worker that holds nothing: what ends that worker then is
  /// known.
  virtual Result<std::vector<Lease>> take(const std::string& worker, const WorkerKind& kind, int most) = 0;
  /// A heartbeat: all leases of the worker begin anew.
  virtual Status renew(const std::string& worker) = 0;
  /// Ends a lease with its item. False if the lease was over: the answer is another worker's to
  /// give, though it may be taken. `seconds`: what the item cost, for the fair share.
  virtual Result<bool> finish(std::int64_t lease, double seconds) = 0;
  /// Ends all leases of a worker and lets their items wait again. `lost`: it ended unasked, so each
  /// of them counts one more lost worker. Gives the items as they wait now.
  virtual Result<std::vector<WorkItem>> release(const std::string& worker, bool lost) = 0;
  /// Takes an item out, waiting or leased. Gives the lease that is void now; 0 for none.
  virtual Result<std::int64_t> drop(const Digest& id) = 0;
  /// Workers whose heartbeats have stopped, the time now given; release() is up to the caller.
  virtual Result<std::vector<std::string>> silent_workers() = 0;
  virtual Result<bool> is_leased(const Digest& id) = 0;
  virtual Result<QueueCounts> counts() = 0;
};

}  // namespace lathe::serve
