#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/events.h"
#include "contest/sample.h"
#include "gym/evaluator.h"
#include "policy/policy.h"
#include "store/store.h"

namespace lathe {

/// One who proposes kernels in a contest.
struct Entrant {
  enum class Kind {
    kSampler,  ///< independent draws
    kRanking,  ///< one list, the best first
    kSearch,   ///< evolution: each evaluation may build on those before it
  };
  std::string name;
  Kind kind = Kind::kSampler;
  bool greedy = false;  ///< a sampler's most likely answer is evaluated too, beside its samples
  int most = 0;         ///< evaluations of a task; 0: as many as all others
  /// Of what it is made, such as model and temperature: a contest's name is not taken up by another
  /// one.
  std::string origin = {};
  std::function<Result<std::unique_ptr<Policy>>()> open;
};

struct ContestTask {
  std::shared_ptr<const TaskSpec> task;
  std::string group;
};

struct ContestOptions {
  std::string name = "contest";  ///< names its runs in the store
  std::string language;
  int samples = 16;  ///< evaluations of each entrant at each task
  int window = 16;   ///< tasks that a sampler writes for at once
  std::uint64_t seed = 1;
};

/// References must outlive the call.
struct ContestContext {
  DeviceInfo device;
  DevicePeaks peaks;
  Evaluator& evaluator;
  Store& store;
  EventSink& events;
  CancelToken stop;
};

/// Has each entrant write kernels for each task, the same number of evaluations for all, and
/// evaluates them at `screen`. A text that several wrote is measured once and counts for each.
/// Every evaluation is an experience in the store when it counts, so that a contest that was
/// stopped goes on; entrants that are done are not opened. Returns false if it was stopped. Errors:
/// kInvalid where the name's earlier sittings were of another device, seed or number of samples, or
/// had an entrant of that name and another origin.
Result<bool> run_contest(const ContestContext& context, const std::vector<Entrant>& entrants,
                         const std::vector<ContestTask>& tasks, const ContestOptions& options);

/// All that a contest's runs have evaluated, by entrant, task and number. Failures of the machine
/// are left out.
Result<std::vector<ContestSample>> contest_samples(Store& store, const std::string& name);

/// The run of an entrant at a task: "contest-NAME-ENTRANT-1a2b3c4d5e6f".
std::string contest_run_id(const std::string& contest, const std::string& entrant, const TaskSpec& task);

}  // namespace lathe
