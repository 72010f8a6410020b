#pragma once

#include <memory>

#include "base/clock.h"
#include "serve/work_queue.h"

namespace lathe::serve {

struct SchedulePolicy {
  double lease_seconds = 5;   ///< without a heartbeat, before a worker counts as lost
  double aging_seconds = 30;  ///< of waiting that weigh as much as one step of priority
  /// Bonus for staying with a task: an item of the worker's last task goes before the client's
  /// other items unless they have waited this much longer. Half of it for other recent tasks.
  double locality_seconds = 20;
  int warm_tasks = 64;         ///< recent tasks that a worker is assumed to keep prepared
  double share_seconds = 0.5;  ///< of work by which a client may be ahead before it is another's turn
};

/// The queue of one front end, in memory. Clients share the workers by the seconds that their items
/// cost; within a client the order is by priority and age, so that nothing starves: an item
/// of priority p goes before all that come (q - p) * aging_seconds + locality_seconds after it with
/// priority q >= p. A jump of the clock (a suspended machine, a stopped process) ends no lease:
/// silence counts only while silent_workers() is asked at least every half of lease_seconds.
std::unique_ptr<WorkQueue> make_memory_queue(const SchedulePolicy& policy, const Clock& clock);

}  // namespace lathe::serve
