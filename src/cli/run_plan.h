#pragma once

#include "base/fd.h"
#include "cli/model_options.h"
#include "cli/session.h"
#include "search/search.h"

namespace lathe::cli {

struct OptimizeOptions {
  CommonOptions common;
  std::vector<std::string> tasks;
  std::string policy = "catalog";
  std::string search;  ///< empty: what fits the policy
  ModelOptions model;
  std::string resume;
  SearchOptions budget;  ///< of each task, but for total_seconds: of all of them together
};

/// A run to do. A new one's record is not in the store yet.
struct RunPlan {
  std::shared_ptr<const TaskSpec> task;
  RunRecord record;
  bool resumed = false;
  bool finished = false;  ///< a resumed one that is done, and no further budget was given
};

/// A run of lathe optimize. Errors: kNotFound; kInvalid for one of a data set or a contest, which
/// are runs of the store too.
Result<RunRecord> find_run(Store& store, const std::string& id_or_prefix);
/// One new run a task.
Result<std::vector<RunPlan>> plan_new_runs(const OptimizeOptions& options);
/// Says what "auto" has become: a resumed run goes on where it began.
void set_device(RunPlan& plan, const std::string& kind);
/// The run that --resume names. Its own settings replace those of `options`, but for a budget given
/// now.
Result<RunPlan> plan_resumed_run(OptimizeOptions& options, Store& store);
/// Puts a new run into the store; says of a resumed one that it is running.
Status begin_run(const RunPlan& plan, Store& store);

/// Held by the process that works on a run: two would count its evaluations twice. The system gives
/// it back when the process ends, however it ends.
class RunLock {
 public:
  /// Errors: kUnavailable, another process holds it.
  static Result<RunLock> take(const std::string& store_folder, const std::string& run);

 private:
  explicit RunLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;  ///< of a file that all runs share: each locks a byte that its name draws
};

}  // namespace lathe::cli
