#include "gym/bench_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/parallel.h"
#include "task/sample.h"

namespace lathe {
namespace {

constexpr std::array kMainDistributions = {Distribution::kNormal, Distribution::kHeavyTail,
                                           Distribution::kProbe, Distribution::kLarge};
constexpr double kSmallFlops = 3e7;  // a shape this small is always verified on every distribution
constexpr double kTrialsNs = 1.2e6;  // what a call on each trial of a timing workload fills
constexpr double kMaxTrials = 96;
// How long a block's start takes differs by a microsecond between processes
// (results/cuda/timing.md).
constexpr double kSteadyBlockNs = 8e4, kShortestCallNs = 2.5e3;
constexpr double kFewestSteadyTrials = 6;
constexpr double kExpectedBytes = 16;          // an fp64 value and its bound an element
constexpr double kTimedElements = 1 << 15;     // of a timed trial's outputs that are known, at least
constexpr double kAllTimedElements = 1 << 20;  // of all trials', where the reference is cheap enough
/// Calls of so few values show together how exact they are.
constexpr double kFewValues = 64, kEnoughTogether = 16;
/// So many indices miss a few values that were computed in bf16; more trials than these cost too
/// much.
constexpr double kEnoughIndices = 2048, kMostForIndices = 16;
constexpr double kLargeElements = 1 << 23;  // of all values of a large shape, at least
constexpr double kLargeFlops = 2e8;
constexpr double kPartFlops = 1e8;        // of the known part of a large shape
constexpr double kUnboundedShare = 0.01;  // of an output's elements over all distributions
constexpr std::int64_t kManyBytes = std::int64_t{1} << 30;

double bytes_of_trial(const BoundTask& task, double known_share) {
  double bytes = 0;
  for (const TensorDecl& tensor : task.spec->tensors)
    bytes += static_cast<double>(element_count(task.shape_of(tensor.name)) *
                                 static_cast<std::int64_t>(info(tensor.dtype).bytes));
  for (const OutputDecl& output : task.spec->outputs)
    bytes += static_cast<double>(element_count(task.shape_of(output.name))) *
             (known_share * kExpectedBytes + static_cast<double>(info(output.dtype).bytes));
  return bytes;
}

/// A trial of whose outputs `part` is known, all by default; none where the task does not allow
/// inputs so extreme.
Result<std::optional<Trial>> make_trial(const Reference& reference, const BoundTask& task,
                                        Distribution distribution, const Seed& seed,
                                        std::optional<Part> part = {}) {
  LATHE_TRY(std::optional<Sample> sample, draw_sample(reference, task, distribution, seed, {.part = part}));
  if (!sample) return std::optional<Trial>();
  return std::optional(Trial{distribution, std::move(sample->inputs), std::move(sample->expected)});
}

/// As many trials as show together how exact the values were whose order their indices are.
int trials_for_order(const std::vector<Expected>& expected) {
  double trials = 0;
  for (const Expected& output : expected) {
    const auto elements = static_cast<double>(output.value.data.size());
    if (elements > 0 && output.order.applies())
      trials = std::max(trials, std::min(kMostForIndices, std::ceil(kEnoughIndices / elements)));
  }
  return static_cast<int>(trials);
}

/// As many trials as show together what a call's values are too few for.
int trials_for_few(const std::vector<Expected>& expected) {
  double trials = trials_for_order(expected);
  for (const Expected& output : expected) {
    const auto elements = static_cast<double>(output.value.data.size());
    const bool summed = output.sums != Sums::kUnknown && output.sums != Sums::kNone;
    if (elements <= 0 || elements >= kFewValues || (!summed && output.unrounded.empty())) continue;
    trials = std::max(trials, std::ceil(kEnoughTogether / elements));
  }
  return static_cast<int>(trials);
}

std::vector<Distribution> choose(Coverage coverage, const Seed& secret) {
  std::vector<Distribution> main(kMainDistributions.begin(), kMainDistributions.end()), others;
  for (const Distribution distribution : all_distributions())
    if (std::ranges::find(main, distribution) == main.end()) others.push_back(distribution);
  if (coverage == Coverage::kOthers) return others;
  if (coverage == Coverage::kMostTelling) others = {others[Rng(secret).below(others.size())]};
  main.insert(main.end(), others.begin(), others.end());
  return main;
}

/// Ordinary or mixed inputs; where there are indices, at times those that nearly all ask for the
/// same, as many as only a large shape has.
Distribution draw_large_distribution(const TaskSpec& spec, const Seed& secret) {
  constexpr std::array kKinds = {Distribution::kNormal, Distribution::kMixed, Distribution::kHeavyTail};
  const bool crowds = std::ranges::any_of(
      spec.tensors, [](const TensorDecl& decl) { return decl.generator.kind == "index"; });
  return kKinds[Rng(secret).below(crowds ? 3 : 2)];
}

}  // namespace

std::string shape_name(const Dims& dims, const TaskSpec& spec) {
  std::string text;
  for (const std::string& dim : spec.dim_names)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", dim, dims.at(dim));
  return text.empty() ? "its only shape" : text;
}

SizeLimits large_limits(const Reference& reference, std::span<const BenchShape> scored) {
  SizeLimits limits{kLargeFlops, kLargeElements};
  for (const BenchShape& shape : scored) {
    if (reference.part_share(shape.task, 1) < 1) limits.flops = std::max(limits.flops, shape.task.flops);
    limits.elements = std::max(limits.elements, 2 * shape.task.value_elements());
  }
  return limits;
}

Result<std::shared_ptr<const Workload>> make_large_workload(Backend& backend, const Reference& reference,
                                                            const BoundTask& task, const Seed& seed) {
  const double affordable = kPartFlops / std::max(1.0, task.flops / task.output_elements());
  Workload workload;
  workload.task = task;
  const Part part{std::min(affordable, kLargePartElements), Rng(seed.derive("part")).next()};
  const Distribution drawn = draw_large_distribution(*task.spec, seed.derive("distribution"));
  LATHE_TRY(std::optional<Trial> trial, make_trial(reference, task, drawn, seed, part));
  if (!trial) {
    LATHE_TRY(trial, make_trial(reference, task, Distribution::kNormal, seed, part));
  }
  if (trial) workload.trials.push_back(*std::move(trial));
  return backend.prepare(std::move(workload));
}

Status check_bounds(const Workload& workload) {
  const TaskSpec& spec = *workload.task.spec;
  if (spec.reference != ReferenceKind::kGraph) return Ok{};
  for (std::size_t o = 0; o < spec.outputs.size(); ++o) {
    std::size_t unbounded = 0, elements = 0;
    for (const Trial& trial : workload.trials) {
      const Value& value = trial.expected[o].value;
      elements += value.data.size();
      for (std::size_t i = 0; i < value.data.size(); ++i)
        unbounded += std::isfinite(value.data[i]) && !std::isfinite(value.error_at(i)) ? 1 : 0;
    }
    if (static_cast<double>(unbounded) > kUnboundedShare * static_cast<double>(elements))
      return invalid(
          fmt::format("{} of {} elements of '{}' have no finite error bound, so any kernel would be "
                      "right there",
                      unbounded, elements, spec.outputs[o].name),
          "run lathe tasks lint: a divisor that may be zero needs an epsilon, a choice by a "
          "comparison of computed values none that divides",
          {spec.path, 0, 0});
  }
  return Ok{};
}

Coverage coverage_for(const BoundTask& task) {
  return task.flops < kSmallFlops ? Coverage::kEverything : Coverage::kMostTelling;
}

int at_least_a_deck(int trials, const DeviceInfo& device) {
  // Of which a half is withheld until a process's end, in blocks enough to see what it remembers.
  constexpr int kDeck = 40;
  return device.deals_trials ? std::max(kDeck, trials) : trials;
}

WorkloadOptions screen_limits(const DeviceInfo& device) {
  WorkloadOptions limits;
  if (device.steady || device.deals_trials) limits.max_bytes = kManyBytes;
  limits.with_guest = true;
  return limits;
}

int trials_for_calls_of(double call_ns) {
  return static_cast<int>(std::clamp(std::ceil(kTrialsNs / std::max(call_ns, 1.0)), 2.0, kMaxTrials));
}

int steady_screen_trials(const BoundTask& task, const DevicePeaks& peaks) {
  const double call_ns = std::max(kShortestCallNs, peaks.floor_ns(task));
  return static_cast<int>(std::max(kFewestSteadyTrials, 2 * std::ceil(kSteadyBlockNs / call_ns)));
}

Result<std::shared_ptr<const Workload>> make_verify_workload(Backend& backend, const Reference& reference,
                                                             const BoundTask& task, const Seed& seed,
                                                             Coverage coverage) {
  Workload workload;
  workload.task = task;
  std::size_t drawn = 0;
  const bool huge = task.output_elements() > kHugeElements;
  const auto draw = [&](const std::vector<Distribution>& wanted) -> Status {
    const std::size_t first = drawn;
    drawn += wanted.size();
    std::vector<std::optional<Trial>> trials(wanted.size());
    LATHE_CHECK_OK(for_each_index(static_cast<int>(wanted.size()), [&](int t) -> Status {
      const auto i = static_cast<std::size_t>(t);
      const Seed own = seed.derive("verify", first + i);
      const Part part{kHugeElements / 4, Rng(own.derive("part")).next()};
      const bool in_part = huge && (first + i > 0 || coverage == Coverage::kOthers);
      LATHE_TRY(trials[i],
                make_trial(reference, task, wanted[i], own, in_part ? std::optional(part) : std::nullopt));
      return Ok{};
    }));
    for (std::optional<Trial>& trial : trials)
      if (trial) workload.trials.push_back(*std::move(trial));
    return Ok{};
  };
  LATHE_CHECK_OK(draw(choose(coverage, seed.derive("distribution"))));
  const auto ordinary = std::ranges::find(workload.trials, Distribution::kNormal, &Trial::distribution);
  if (ordinary != workload.trials.end()) {
    const double affordable = kPartFlops / std::max(1.0, task.flops);
    const double more = std::min(trials_for_order(ordinary->expected) - 1.0, affordable);
    if (more >= 1) LATHE_CHECK_OK(draw(std::vector(static_cast<std::size_t>(more), Distribution::kNormal)));
  }
  // A kernel sees where its inputs lie: that must not tell their distribution.
  Rng(seed.derive("places")).shuffle(workload.trials);
  return backend.prepare(std::move(workload));
}

Result<std::shared_ptr<const Workload>> make_timing_workload(Backend& backend, const Reference& reference,
                                                             const BoundTask& task, const Seed& seed,
                                                             int wanted, const WorkloadOptions& limits) {
  const double share = reference.part_share(task, kTimedElements);
  const double by_memory = static_cast<double>(limits.max_bytes) / bytes_of_trial(task, share);
  const double by_flops = limits.max_reference_flops / std::max(1.0, share * task.flops);
  const int most = static_cast<int>(std::min({by_memory, by_flops, 1e6}));
  const int count = std::max(2, std::min(wanted, most));
  const double affordable = kTimedElements * std::max(1.0, by_flops / count);
  const double elements = std::clamp(kAllTimedElements / count, kTimedElements, affordable);
  Workload workload;
  workload.task = task;
  workload.timed = true;
  const auto draw_up_to = [&](int trials) -> Status {
    const std::size_t drawn = workload.trials.size();
    workload.trials.resize(static_cast<std::size_t>(trials));
    return for_each_index(trials - static_cast<int>(drawn), [&](int t) -> Status {
      const std::size_t i = drawn + static_cast<std::size_t>(t);
      const Part part{elements, Rng(seed.derive("part", i)).next()};
      LATHE_TRY(std::optional<Trial> trial,
                make_trial(reference, task, Distribution::kNormal, seed.derive("timing", i), part));
      if (trial) workload.trials[i] = *std::move(trial);
      return Ok{};
    });
  };
  LATHE_CHECK_OK(draw_up_to(count));
  LATHE_CHECK_OK(draw_up_to(std::max(count, std::min(trials_for_few(workload.trials[0].expected), most))));
  if (limits.with_guest) {
    const Part part{elements, Rng(seed.derive("guest part")).next()};
    LATHE_TRY(std::optional<Trial> guest,
              make_trial(reference, task, Distribution::kMixed, seed.derive("guest"), part));
    if (guest) {
      // Not last: a kernel sees where its inputs lie.
      workload.guest = static_cast<int>(Rng(seed.derive("guest place")).below(workload.trials.size() + 1));
      workload.trials.insert(workload.trials.begin() + workload.guest, *std::move(guest));
    }
  }
  return backend.prepare(std::move(workload));
}

}  // namespace lathe
