#pragma once

#include <cstdint>
#include <string>

#include "base/events.h"
#include "data/dataset.h"
#include "gym/evaluator.h"
#include "policy/policy.h"
#include "store/store.h"
#include "task/generate/generate.h"

namespace lathe {

struct DataOptions {
  std::uint64_t seed = 1;  ///< of the data set: tasks are those of generate_task(seed + 0, 1, ...)
  int tasks = 500;
  int evaluations = 40;             ///< of a task, timed
  std::string strategy = "evolve";  ///< that draws them: "survey" for a fair sample of all schedules
  int faults = 4;                   ///< of a task, verified
  int verified = 0;                 ///< of a task besides, drawn from the policy: verified and not timed
  double max_seconds = 0;           ///< no further task is begun after so long; 0: no limit
  GenerateOptions generate = {};
};

/// Everything that making data works with. References must outlive the call.
struct DataContext {
  DeviceInfo device;
  DevicePeaks peaks;
  Policy& policy;
  Evaluator& evaluator;
  Store& store;
  EventSink& events;
  CancelToken stop;
};

struct DataSummary {
  int made = 0;                ///< tasks, in this sitting
  int known = 0;               ///< tasks that earlier sittings made
  int unprepared = 0;          ///< tasks that no baseline computes, or that the machine failed
  double prepare_seconds = 0;  ///< waited for; a task is prepared while the one before it is evaluated
  double evaluate_seconds = 0;
  bool interrupted = false;
};

struct HeldOutTask {
  std::shared_ptr<const TaskSpec> task;
  Split split = Split::kShapes;
};
/// To examine what was trained on a data set with these options: of its tasks those with held-out
/// compositions, and each of the others with extents that the data set has not. Nothing is
/// evaluated. With the options of another data set, tasks of compositions that no training has seen
/// remain a fair exam, and reshaped ones need not be known.
Result<std::vector<HeldOutTask>> held_out_tasks(const DataOptions& options, const CancelToken& stop);

/// The run of a data set's task: "data-1-17".
std::string data_run_id(std::uint64_t seed, int index);

/// Evaluates a policy's kernels, and verifies others and faulty forms of the fastest, for each task
/// of a data set: one run a task, whose summary holds what read_data() needs. Goes on where an
/// earlier sitting stopped: within a task too.
Result<DataSummary> make_data(const DataContext& context, const DataOptions& options);

}  // namespace lathe
