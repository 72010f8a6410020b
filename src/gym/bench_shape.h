#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/random.h"

namespace lathe {

/// One shape of a task with the data that candidates are verified and timed on. Made once a run,
/// shared by all candidates. The trials come from secret seeds.
struct BenchShape {
  std::string name;  ///< "rows=1024,cols=512"
  bool hidden = false;
  bool large = false;  ///< a hidden one up to the domain's end, known in part and verified by one call
  BoundTask task;
  std::shared_ptr<const Workload> verify;
  RmsLimits rms;                           ///< of the naive build on `verify`; empty when not measured
  std::shared_ptr<const Workload> timing;  ///< null for hidden shapes
  RmsLimits timing_rms;                    ///< of the naive build on `timing`
  int final_trials = 2;                    ///< of a final's own workloads
};

/// As people read it, also where the task has no dims.
std::string shape_name(const Dims& dims, const TaskSpec& spec);

struct WorkloadOptions {
  std::int64_t max_bytes = 256 << 20;  ///< of inputs, outputs and expectations together
  double max_reference_flops = 4e9;    ///< of all trials together
  bool with_guest = false;             ///< one trial more, of mixed inputs: see time_quickly()
};

/// Of what screens are timed on.
WorkloadOptions screen_limits(const DeviceInfo& device);

/// Beyond these, all trials but one are known in part.
inline constexpr double kHugeElements = 1 << 25;
/// Of the known part of a large shape.
inline constexpr double kLargePartElements = 1 << 21;

/// Which distributions a shape is verified on.
enum class Coverage {
  kEverything,
  kMostTelling,  ///< the four that catch most, and a secret one of the others
  kOthers,       ///< all but these four
};
/// What every evaluation can afford.
Coverage coverage_for(const BoundTask& task);

/// One trial for each distribution that the task allows.
Result<std::shared_ptr<const Workload>> make_verify_workload(Backend& backend, const Reference& reference,
                                                             const BoundTask& task, const Seed& seed,
                                                             Coverage coverage);
/// Errors: too many elements of a graph's output have no finite error bound, so that kernels might
/// give anything there, or nothing.
Status check_bounds(const Workload& workload);

/// How large a shape may be that every evaluation runs once more: beyond the scored shapes, unless
/// one call of a slow kernel or the reference would take seconds.
SizeLimits large_limits(const Reference& reference, std::span<const BenchShape> scored);
/// One trial, of whose outputs a secret part is known. Every second one has mixed inputs, for what
/// is unstable only where it is large; ordinary ones tell low precision better. Of tasks with
/// indices each third has crowded ones, for what counts in too few bits.
Result<std::shared_ptr<const Workload>> make_large_workload(Backend& backend, const Reference& reference,
                                                            const BoundTask& task, const Seed& seed);

/// From how many trials blocks draw their calls, where a call takes so long.
int trials_for_calls_of(double call_ns);
/// As many as a device that deals trials needs, for a process serves several blocks with them.
int at_least_a_deck(int trials, const DeviceInfo& device);
/// The same for screens on a steady device: as many as fill a block of usual and one of unseen
/// inputs for longer than what its start may cost, if calls take the least that they can.
int steady_screen_trials(const BoundTask& task, const DevicePeaks& peaks);

/// As many trials as a block needs so that no input is seen twice, within the limits; at least two.
Result<std::shared_ptr<const Workload>> make_timing_workload(Backend& backend, const Reference& reference,
                                                             const BoundTask& task, const Seed& seed,
                                                             int wanted, const WorkloadOptions& limits);

}  // namespace lathe
