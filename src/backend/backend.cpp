#include "backend/backend.h"

#include <algorithm>

#include "base/parallel.h"
#include "candidate/launch_program.h"
#include "sandbox/memfd.h"

namespace lathe {

double DevicePeaks::memory_floor_seconds(double bytes) const {
  double seconds = 0, held = 0;
  for (const Level& level : levels) {
    const double here = std::min(bytes, level.capacity_bytes) - held;
    if (here <= 0) break;
    seconds += here / level.bytes_per_second;
    held += here;
  }
  return seconds;
}

double DevicePeaks::flops_limit(const TaskSpec& task) const {
  std::size_t bytes = 4;  // of the smallest numbers, of which an instruction multiplies as many more
  for (const TensorDecl& tensor : task.tensors)
    if (tensor.dtype != DType::kBool) bytes = std::min(bytes, info(tensor.dtype).bytes);
  const double more = 4 / static_cast<double>(bytes);
  return std::max(flops_per_second * more, tensor_flops_per_second * (bytes <= 2 ? more / 2 : 1.0 / 3));
}

double DevicePeaks::floor_ns(const BoundTask& task) const {
  const double most = flops_limit(*task.spec);
  const double flops_seconds = most > 0 ? task.essential_flops / most : 0;
  return 1e9 * std::max(memory_floor_seconds(task.bytes_min), flops_seconds);
}

DevicePeaks DevicePeaks::best_of(const DevicePeaks& other) const {
  if (levels.size() != other.levels.size()) return other;
  DevicePeaks best = *this;
  best.flops_per_second = std::max(flops_per_second, other.flops_per_second);
  best.tensor_flops_per_second = std::max(tensor_flops_per_second, other.tensor_flops_per_second);
  for (std::size_t i = 0; i < levels.size(); ++i)
    best.levels[i].bytes_per_second = std::max(levels[i].bytes_per_second, other.levels[i].bytes_per_second);
  return best;
}

bool Backend::covers(const Candidate& candidate, const BoundTask& task) const {
  const auto inside = in_domain(candidate, task, device().facts);
  return !inside.ok() || *inside;  // open() tells the error
}

MemoryUse Workload::memory() const {
  std::size_t bytes = 0;
  for (const Trial& trial : trials) {
    for (const HostTensor& input : trial.inputs) bytes += input.bytes.size();
    for (const Expected& output : trial.expected)
      for (const Value* const value : {&output.value, &output.source})
        bytes += (value->data.capacity() + value->err.capacity()) * sizeof(double);
  }
  return {.host = static_cast<std::int64_t>(bytes)};
}

Status Workload::move_inputs(const UniqueFd& memory, std::uint64_t stride,
                             std::span<const std::uint64_t> offsets) {
  std::vector<Status> moved(trials.size(), Ok{});
  const auto count = static_cast<std::int64_t>(trials.size());
  for_each_job(count, static_cast<double>(stride) * static_cast<double>(count), [&](std::int64_t trial) {
    const auto t = static_cast<std::size_t>(trial);
    for (std::size_t i = 0; i < offsets.size() && moved[t].ok(); ++i) {
      auto& bytes = trials[t].inputs[i].bytes;
      moved[t] = write_at(memory, t * stride + offsets[i], bytes);
      bytes = {};
    }
  });
  for (const Status& status : moved) LATHE_CHECK_OK(status);
  return Ok{};
}

Result<std::vector<std::unique_ptr<Session>>> Backend::open_together(const Candidate& candidate,
                                                                     std::span<const Opening> openings,
                                                                     Runner runner) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (const Opening& opening : openings) {
    LATHE_TRY(sessions.emplace_back(), open(candidate, *opening.artifact, opening.workload, runner));
  }
  return sessions;
}

BuildResult refuse_host_program(const Candidate& candidate) {
  BuildResult refused{.reason = "host_program"};
  refused.facts.log =
      "this device runs kernels with a plan, not host programs in " + candidate.host_program().language;
  return refused;
}

Result<BuildResult> build_plan(const Candidate& candidate, const BoundTask& task,
                               const std::function<Result<BuildResult>(const std::string& text)>& compile) {
  if (!candidate.has_plan()) return refuse_host_program(candidate);
  if (!candidate.has_kernels()) {
    BuildResult nothing{.ok = true};
    nothing.artifact.key = candidate.digest;
    return nothing;
  }
  Dims constants;
  for (const std::string& name : candidate.plan().constants) constants[name] = task.dims.at(name);
  return compile(with_constants(candidate.text, constants));
}

TileChoice choice_of(const BlockRequest& request, int trial) {
  return {request.check_fraction, request.secret + static_cast<std::uint64_t>(trial)};
}

void check_trial(const Workload& workload, const BlockRequest& request, int trial,
                 std::span<const std::span<const std::byte>> outputs, BlockOutcome& outcome) {
  const auto& expected = workload.trials[static_cast<std::size_t>(trial)].expected;
  auto& comparisons = outcome.outputs.emplace_back();
  std::vector<RmsLimit> measured;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const RmsLimit* const limit = request.rms ? &(*request.rms)[static_cast<std::size_t>(trial)][i] : nullptr;
    if (request.check_fraction < 1) {
      comparisons.push_back(compare_sample(expected[i], outputs[i], choice_of(request, trial), limit));
      continue;
    }
    comparisons.push_back(compare(expected[i], outputs[i], limit));
    if (request.measure_rms) measured.push_back(measure_rms(expected[i], outputs[i]));
  }
  if (request.measure_rms) outcome.rms.push_back(std::move(measured));
}

}  // namespace lathe
