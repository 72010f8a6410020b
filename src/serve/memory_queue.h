#pragma once

#include <memory>

#include "base/clock.h"
#include "serve/work_queue.h"

namespace lathe::serve {

struct SchedulePolicy {
  double lease_seconds = 5;   ///< without a heartbeat, before a worker counts as lost
  double aging_seconds = 30;  ///< of waiting that are worth one step of priority
  /// What staying with a task is worth: an item of the worker's last task goes before others of the
  /// client that wait at most so much longer. Of a task that the worker has had among its last
  /// ones, half.
  double locality_seconds = 20;
  int warm_tasks = 64;         ///< that a worker is assumed to keep prepared
  double share_seconds = 0.5;  ///< of work that a client may be ahead before another one's turn
};

/// The queue of one front end, in its memory. Clients share the workers by the seconds that their
/// items cost; within a client the order is by priority and age, so that nothing starves: an item
/// of priority p goes before all that come (q - p) * aging_seconds + locality_seconds after it with
/// priority q >= p. A jump of the clock (a suspended machine, a stopped process) ends no lease:
/// silence counts only while silent_workers() is asked at least every half of lease_seconds.
std::unique_ptr<WorkQueue> make_memory_queue(const SchedulePolicy& policy, const Clock& clock);

}  // namespace lathe::serve
