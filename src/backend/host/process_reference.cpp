#include "backend/host/process_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "record/json.h"

namespace lathe::host {
namespace {

constexpr double kDescribeSeconds = 60;
constexpr double kEvaluateSeconds = 300;
constexpr double kOwnErrors = 8;
constexpr double kRoundings = 64, kLargestRoundings = 8, kSumRoundings = 8;
constexpr double kLongestSum = 4096;  // beyond, sums that go astray are the module's own errors to show
constexpr std::size_t kMostDescription = 1 << 20;

Error module_failed(const BoundTask& task, const std::string& what) {
  return invalid("the process reference failed: " + what, "run its file in Python by itself",
                 {task.spec->path, 0, 0});
}

ProgramText text_of_reference(const TaskSpec& spec, std::uint64_t seed) {
  return {spec.reference_text, spec.reference_entry, true, seed};
}

/// Of all inputs: how many terms a sum may have, as far as anybody can tell.
double longest_extent(const BoundTask& task) {
  std::int64_t longest = 1;
  for (const TensorDecl& tensor : task.spec->tensors)
    for (const std::int64_t extent : task.shape_of(tensor.name)) longest = std::max(longest, extent);
  return static_cast<double>(longest);
}

void add_tolerance(const BoundTask& task, const std::vector<double>& usual, Expected& expected) {
  if (expected.compare != CompareKind::kBound) return;
  const DTypeInfo& type = info(expected.dtype);
  const std::vector<double>& exact = expected.value.data;
  double largest = 0, own_error = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!std::isfinite(exact[i])) continue;
    largest = std::max(largest, std::fabs(exact[i]));
    if (std::isfinite(usual[i])) own_error = std::max(own_error, std::fabs(usual[i] - exact[i]));
  }
  const double u = type.unit_roundoff;
  const double roundings =
      kRoundings + kSumRoundings * std::sqrt(std::min(longest_extent(task), kLongestSum));
  for (const double y : exact)
    expected.value.err.push_back(task.spec->tolerance *
                                 (roundings * u * std::fabs(y) + kLargestRoundings * u * largest +
                                  kOwnErrors * own_error + 2 * u * type.smallest_normal));
}

class ProcessReference final : public Reference {
 public:
  explicit ProcessReference(ReferenceRoom& room) : room_(room) {}

  Result<std::vector<Expected>> evaluate(const BoundTask& task, std::span<const HostTensor> inputs,
                                         const Numerics&) const override {
    LATHE_TRY(auto answers, room_.evaluate(task, inputs));
    std::vector<Expected> all;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const OutputDecl& output = task.spec->outputs[i];
      Expected& expected = all.emplace_back();
      expected.name = output.name;
      expected.dtype = output.dtype;
      expected.compare = output.compare;
      expected.value.shape = task.shape_of(output.name);
      expected.value.data = std::move(answers[i].exact);
      add_tolerance(task, answers[i].usual, expected);
    }
    return all;
  }

 private:
  ReferenceRoom& room_;
};

}  // namespace

std::uint64_t ReferenceRoom::seed_of(const BoundTask& task) const {
  Seed seed = secret_.derive(task.spec->digest.hex());
  for (const auto& [name, extent] : task.dims) seed = seed.derive(name, static_cast<std::uint64_t>(extent));
  return Rng(seed).next() >> 1;  // torch takes 63 bits
}

Result<nlohmann::json> ReferenceRoom::describe(const BoundTask& task, UniqueFd& state) {
  const ProgramText program = text_of_reference(*task.spec, seed_of(task));
  nlohmann::json description;
  for (std::size_t bytes = 0;;) {
    LATHE_TRY(Zygote::Rooms rooms, Zygote::make_rooms({.outputs = bytes, .text = kMostDescription}));
    LATHE_TRY(auto zygote, zygotes_.take());
    Status loaded = zygote->load(describe_program(program, task, {}).dump(), rooms, {}, {});
    auto reply =
        loaded.ok() ? zygote->run_step('d', rooms, kDescribeSeconds, {}) : Result<ChildReply>(loaded.error());
    if (!reply.ok()) return zygote.drop(), reply.error();
    if (!reply->exited_with(kExitAnswered)) return module_failed(task, lathe::host::text_of(rooms));
    LATHE_TRY(description, parse_json(raw_text_of(rooms, kMostDescription), "a module's description"));
    const auto needed = description.value("state_bytes", std::size_t{0});
    if (needed == 0) return description;
    if (bytes >= needed) {
      LATHE_TRY(state, reopen_read_only(rooms.outputs_fd));
      return description;
    }
    bytes = needed;
  }
}

Result<std::shared_ptr<const Model>> ReferenceRoom::model(const BoundTask& task) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<const Model>& known = models_[{task.spec->digest, task.dims}];
  if (known) return known;
  auto made = std::make_shared<Model>();
  LATHE_TRY(const nlohmann::json description, describe(task, made->state_memory));
  made->init = description.value("init", nlohmann::json::array());
  made->state = description.value("state", nlohmann::json::array());
  known = std::move(made);
  return known;
}

Result<std::vector<ReferenceRoom::Answer>> ReferenceRoom::evaluate(const BoundTask& task,
                                                                   std::span<const HostTensor> inputs) {
  const Layout layout = lay_out_inputs(task);
  std::size_t elements = 0;
  for (const OutputDecl& output : task.spec->outputs)
    elements += static_cast<std::size_t>(element_count(task.shape_of(output.name)));
  LATHE_TRY(const Zygote::Rooms rooms,
            Zygote::make_rooms({.window = layout.bytes, .outputs = 2 * elements * sizeof(double)}));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    std::memcpy(rooms.window.data() + layout.offsets[i], inputs[i].bytes.data(), inputs[i].bytes.size());
  LATHE_TRY(auto zygote, zygotes_.take());
  const ProgramText program = text_of_reference(*task.spec, seed_of(task));
  const Status loaded = zygote->load(describe_program(program, task, {}).dump(), rooms, {}, {});
  const auto reply =
      loaded.ok() ? zygote->run_step('e', rooms, kEvaluateSeconds, {}) : Result<ChildReply>(loaded.error());
  if (!reply.ok()) return zygote.drop(), reply.error();
  if (!reply->exited_with(kExitAnswered)) return module_failed(task, lathe::host::text_of(rooms));
  std::vector<Answer> answers;
  const auto* from = reinterpret_cast<const double*>(rooms.outputs.data());
  for (const OutputDecl& output : task.spec->outputs) {
    const auto count = element_count(task.shape_of(output.name));
    Answer& answer = answers.emplace_back();
    answer.exact.assign(from, from + count);
    answer.usual.assign(from + count, from + 2 * count);
    from += 2 * count;
  }
  return answers;
}

std::unique_ptr<Reference> make_process_reference(ReferenceRoom& room) {
  return std::make_unique<ProcessReference>(room);
}

}  // namespace lathe::host
