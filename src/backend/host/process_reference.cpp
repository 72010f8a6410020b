#include "backend/host/process_reference.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>

#include "backend/host/jail/desk.h"
#include "backend/host/jail/futex.h"
#include "base/clock.h"
#include "base/processors.h"
#include "record/json.h"
#include "record/json_reader.h"

namespace lathe::host {
namespace {

constexpr double kDescribeSeconds = 60;
constexpr double kSignatureSeconds = 30;
constexpr double kEvaluateSeconds = 300;
constexpr double kOracleSeconds = 86'400;  // its process ends with it before
constexpr int kEndMs = 10'000;
constexpr int kMostBusy = 2;
constexpr std::size_t kMostOracles = 8, kFewestOracles = 2, kMostModels = 256;
constexpr long kPatience = 50'000'000;
constexpr double kOwnErrors = 8;
constexpr double kRoundings = 64, kLargestRoundings = 8, kSumRoundings = 8;
/// Of fp16, bf16 and eight bits, beside those of fp32, in which sums are kept: so many would be
/// most of a value.
constexpr double kNarrowRoundings = 4, kLargestNarrowRoundings = 1;
constexpr double kInputRoundings = 16;
constexpr double kMostForInputs = 1.0 / 16;  // of the largest element: noise is no result
constexpr double kLongestSum = 4096;  // beyond, sums that go astray are the module's own errors to show
constexpr std::size_t kMostDescription = 1 << 20, kMostStateBytes = std::size_t{16} << 30;
constexpr std::size_t kUsualStateBytes = 16 << 20;  // memory that nobody touches costs nothing
constexpr std::size_t kMostRank = 8, kMostArguments = 64;

Error module_failed(const BoundTask& task, const std::string& what) {
  return invalid("the process reference failed: " + what, "run its file in Python by itself",
                 {task.spec->path, 0, 0});
}

/// What the module's process said, or how it ended.
Error module_failed(const BoundTask& task, const ChildReply& reply, const Zygote::Rooms& rooms) {
  const std::string said = lathe::host::text_of(rooms);
  if (!said.empty()) return module_failed(task, said);
  if (!WIFSIGNALED(reply.wait_status))
    return module_failed(task, fmt::format("exit code {}", WEXITSTATUS(reply.wait_status)));
  const int signal = WTERMSIG(reply.wait_status);
  return module_failed(task, signal == SIGSYS    ? "it made a forbidden system call"
                             : signal == SIGKILL ? "it took too long"
                                                 : fmt::format("signal {}", signal));
}

/// The module shares the process that wrote its description, so that anything may stand there.
Result<std::size_t> state_bytes_of(const BoundTask& task, const nlohmann::json& description) {
  if (!description.is_object()) return module_failed(task, "its description is no object");
  const auto bytes = description.find("state_bytes");
  if (bytes == description.end()) return std::size_t{0};
  if (!bytes->is_number_unsigned() || *bytes > kMostStateBytes)
    return module_failed(task, fmt::format("its state has no size up to {} bytes", kMostStateBytes));
  return bytes->get<std::size_t>();
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

/// How many roundings a sum of so many terms may lose.
double roundings_of_sum(double terms) {
  return kRoundings + kSumRoundings * std::sqrt(std::min(terms, kLongestSum));
}

/// Of the largest input: a sum may have so many terms, whatever its axes.
double most_elements(const BoundTask& task) {
  std::int64_t most = 1;
  for (const TensorDecl& tensor : task.spec->tensors)
    most = std::max(most, element_count(task.shape_of(tensor.name)));
  return static_cast<double>(most);
}

/// What a stable algorithm may lose of elements that a rounding of the inputs changes. One that it
/// changes by more than its size, as where a mean is taken from equal values, is what sums lose.
struct InputRoundings {
  double of_sums;
  double most;  ///< of other elements

  double granted(double exact, double change) const {
    return std::fabs(exact) <= change ? of_sums * change : std::min(kInputRoundings * change, most);
  }
};

void add_tolerance(const BoundTask& task, const ReferenceRoom::Answer& answer, Expected& expected) {
  if (expected.compare != CompareKind::kBound) {
    if (std::ranges::any_of(answer.apart, [](double apart) { return apart > 0; }))
      expected.value.err = answer.apart;
    return;
  }
  const DTypeInfo& type = info(expected.dtype);
  const std::vector<double>& exact = expected.value.data;
  double largest = 0, own_error = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!std::isfinite(exact[i])) continue;
    largest = std::max(largest, std::fabs(exact[i]));
    if (std::isfinite(answer.off[i])) own_error = std::max(own_error, answer.off[i] - answer.apart[i]);
  }
  const double u = type.unit_roundoff, u_inside = std::min(u, info(DType::kF32).unit_roundoff);
  const bool is_narrow = u > u_inside;
  const double roundings = roundings_of_sum(longest_extent(task));
  const double of_element = roundings * u_inside + (is_narrow ? kNarrowRoundings * u : 0);
  const double of_largest = kLargestRoundings * u_inside + (is_narrow ? kLargestNarrowRoundings * u : 0);
  const bool is_double = expected.dtype == DType::kF64;
  const InputRoundings of_inputs{is_double ? 0 : roundings_of_sum(most_elements(task)),
                                 is_double ? 0 : kMostForInputs * largest};
  for (std::size_t i = 0; i < exact.size(); ++i)
    expected.value.err.push_back(
        answer.apart[i] + task.spec->tolerance * (of_element * std::fabs(exact[i]) + of_largest * largest +
                                                  kOwnErrors * own_error + 2 * u * type.smallest_normal +
                                                  of_inputs.granted(exact[i], answer.change[i])));
}

/// Whether the module's own precision cannot hold what it computes: such inputs are no candidate's
/// fault.
bool overflows(const std::vector<double>& exact, const std::vector<double>& off) {
  for (std::size_t i = 0; i < exact.size(); ++i)
    if (std::isfinite(exact[i]) && !std::isfinite(off[i])) return true;
  return false;
}

Result<std::vector<Expr>> shape_from(const nlohmann::json& node) {
  if (!node.is_object() || !node.contains("shape")) return invalid("a tensor has no shape");
  const nlohmann::json& extents = node["shape"];
  if (!extents.is_array() || extents.size() > kMostRank)
    return invalid(fmt::format("a tensor has more than {} axes", kMostRank));
  std::vector<Expr> shape;
  for (const nlohmann::json& extent : extents) {
    if (!extent.is_number_integer()) return invalid("an extent is no integer");
    shape.push_back(Expr::constant(extent.get<std::int64_t>()));
  }
  return shape;
}

Result<TensorDecl> tensor_from(const nlohmann::json& node, std::size_t number) {
  TensorDecl tensor;
  tensor.name = fmt::format("input{}", number);
  LATHE_TRY(tensor.shape, shape_from(node));
  JsonReader reader(node, tensor.name);
  reader.read_name("dtype", tensor.dtype, [](std::string_view name) { return parse_dtype(name); });
  std::string kind;
  reader.read("kind", kind);
  Generator& generator = tensor.generator;
  if (kind == "value") {
    tensor.role = Role::kScalar;
    reader.read("value", tensor.value.emplace());
  } else if (kind == "index") {
    tensor.role = Role::kIndex;
    generator.kind = kind;
    std::int64_t limit = 0;
    reader.read("limit", limit);
    generator.index_limit = Expr::constant(limit);
  } else if (kind == "range") {
    generator.kind = "uniform";
    generator.bounded = true;
    reader.read("low", generator.low);
    reader.read("high", generator.high);
  } else {
    generator.kind = kind == "zeros_ones" ? kind : "normal";
    if (reader.has("mean")) reader.read("mean", generator.mean);
    if (reader.has("scale")) reader.read("scale", generator.scale);
  }
  if (!reader.status().ok()) return reader.status().error();
  if (tensor.shape.empty() && tensor.role != Role::kScalar) return invalid(tensor.name + " has no axis");
  return tensor;
}

Result<OutputDecl> output_from(const nlohmann::json& node, std::size_t number) {
  OutputDecl output;
  output.name = fmt::format("output{}", number);
  LATHE_TRY(output.shape, shape_from(node));
  JsonReader reader(node, output.name);
  reader.read_name("dtype", output.dtype, [](std::string_view name) { return parse_dtype(name); });
  if (!reader.status().ok()) return reader.status().error();
  output.compare = info(output.dtype).is_float ? CompareKind::kBound : CompareKind::kExact;
  return output;
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
      expected.range_share = overflows(expected.value.data, answers[i].off) ? INFINITY : 0;
      add_tolerance(task, answers[i], expected);
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

Result<ChildReply> ReferenceRoom::ask_once(const ProgramText& program, const BoundTask& task,
                                           const Zygote::Rooms& rooms, char step, double seconds) {
  const Section section{&task};
  LATHE_TRY(auto zygote, zygotes_.take());
  const Status loaded =
      zygote->load(describe_program(program, {&section, 1}).dump(), rooms, {&section, 1}, {});
  auto reply =
      loaded.ok() ? zygote->run_step(step, rooms, seconds, cancel_) : Result<ChildReply>(loaded.error());
  // Few modules need a GPU to be made, and its context takes longer than all the rest.
  if (uses_gpu_ && reply.ok() && !reply->exited_with(kExitAnswered))
    reply = zygote->run_step(static_cast<char>(std::toupper(step)), rooms, seconds, cancel_);
  if (!reply.ok()) zygote.drop();
  return reply;
}

Result<nlohmann::json> ReferenceRoom::describe(const BoundTask& task, UniqueFd& state) {
  const ProgramText program = text_of_reference(*task.spec, seed_of(task));
  nlohmann::json description;
  for (std::size_t bytes = kUsualStateBytes, tries = 0; tries < 2; ++tries) {
    LATHE_TRY(Zygote::Rooms rooms, Zygote::make_rooms({.outputs = bytes, .text = kMostDescription}));
    LATHE_TRY(const ChildReply reply, ask_once(program, task, rooms, 'd', kDescribeSeconds));
    if (!reply.exited_with(kExitAnswered)) return module_failed(task, reply, rooms);
    LATHE_TRY(description, parse_json(raw_text_of(rooms, kMostDescription), "a module's description"));
    LATHE_TRY(const std::size_t needed, state_bytes_of(task, description));
    if (needed == 0) return description;
    if (bytes >= needed) {
      LATHE_TRY(state, reopen_read_only(rooms.outputs_fd));
      return description;
    }
    bytes = needed;
  }
  return module_failed(task, "its state grows each time that it is made");
}

Result<TaskSpec> ReferenceRoom::complete(TaskSpec spec) {
  if (spec.reference != ReferenceKind::kProcess || !spec.outputs.empty()) return spec;
  LATHE_TRY(const BoundTask task, lathe::bind(spec, {}));
  LATHE_TRY(const Zygote::Rooms rooms, Zygote::make_rooms({.text = kMostDescription}));
  const ProgramText program = text_of_reference(spec, seed_of(task));
  LATHE_TRY(const ChildReply reply, ask_once(program, task, rooms, 't', kSignatureSeconds));
  if (!reply.exited_with(kExitAnswered)) return module_failed(task, reply, rooms);
  LATHE_TRY(const nlohmann::json signature,
            parse_json(raw_text_of(rooms, kMostDescription), "a module's signature"));
  const auto list = [&](const char* name) {  // the module shares the process that wrote it
    const bool there = signature.is_object() && signature.contains(name) && signature[name].is_array();
    return there ? signature[name] : nlohmann::json::array();
  };
  const nlohmann::json inputs = list("inputs"), outputs = list("outputs");
  if (inputs.size() > kMostArguments || outputs.size() > kMostArguments || outputs.empty())
    return module_failed(task, fmt::format("{} inputs and {} outputs", inputs.size(), outputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    LATHE_TRY(spec.tensors.emplace_back(), tensor_from(inputs[i], i));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    LATHE_TRY(spec.outputs.emplace_back(), output_from(outputs[i], i));
  }
  LATHE_TRY(const BoundTask whole, lathe::bind(spec, {}));
  (void)whole;
  return spec;
}

Result<std::shared_ptr<const Model>> ReferenceRoom::make_model(const BoundTask& task) {
  auto made = std::make_shared<Model>();
  LATHE_TRY(const nlohmann::json description, describe(task, made->state_memory));
  made->init = description.value("init", nlohmann::json::array());
  made->state = description.value("state", nlohmann::json::array());
  made->samples = sample_inputs(task);
  return std::shared_ptr<const Model>(std::move(made));
}

std::shared_ptr<ReferenceRoom::KnownModel> ReferenceRoom::known_model(const Key& key) {
  std::lock_guard lock(mutex_);
  auto found = std::ranges::find(models_, key, &std::pair<Key, std::shared_ptr<KnownModel>>::first);
  if (found == models_.end()) {
    if (models_.size() >= kMostModels) models_.erase(models_.begin());  // made anew, it is the same
    found = models_.insert(models_.end(), {key, std::make_shared<KnownModel>()});
  }
  std::rotate(found, found + 1, models_.end());
  return models_.back().second;
}

Result<std::shared_ptr<const Model>> ReferenceRoom::model(const BoundTask& task) {
  const auto known = known_model({task.spec->digest, task.dims});
  std::lock_guard lock(known->making);
  if (!known->model) {
    LATHE_TRY(known->model, make_model(task));
  }
  return known->model;
}

/// A process in which a task's module answers for inputs of one shape, one after another: on a GPU
/// a process costs a second, an answer milliseconds.
class ReferenceRoom::Oracle {
 public:
  static Result<std::unique_ptr<Oracle>> start(ZygotePool& zygotes, const BoundTask& task,
                                               std::uint64_t seed) {
    LATHE_TRY(auto zygote, zygotes.take());
    std::unique_ptr<Oracle> oracle(new Oracle(std::move(zygote), lay_out_inputs(task)));
    std::size_t elements = 0;
    for (const OutputDecl& output : task.spec->outputs)
      elements += static_cast<std::size_t>(element_count(task.shape_of(output.name)));
    LATHE_TRY(oracle->rooms_, Zygote::make_rooms({.window = oracle->layout_.bytes,
                                                  .outputs = 4 * elements * sizeof(double)}));
    const Section section{&task};
    const std::string document = describe_program(text_of_reference(*task.spec, seed), {&section, 1}).dump();
    Status begun = oracle->zygote_->load(document, oracle->rooms_, {&section, 1}, {});
    if (begun.ok()) begun = oracle->zygote_->begin_answers(kOracleSeconds);
    if (!begun.ok()) return oracle->zygote_.drop(), begun.error();
    return oracle;
  }
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;
  ~Oracle() {
    if (!zygote_.held()) return;
    ask(Control::kEnd);
    if (!zygote_->end_block(kEndMs).ok()) zygote_.drop();
  }

  bool works() const { return zygote_.held(); }

  Result<std::vector<Answer>> answer(const BoundTask& task, std::span<const HostTensor> inputs,
                                     const CancelToken& cancel) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      std::memcpy(rooms_.window.data() + layout_.offsets[i], inputs[i].bytes.data(), inputs[i].bytes.size());
    ask(++asked_);
    const std::int64_t begin_ns = steady_clock().now_ns();
    while (control().done.load(std::memory_order_acquire) != asked_) {
      if (zygote_->reply_waits()) return failure(task);
      if (cancel.cancelled()) {
        zygote_.drop();
        return Error{ErrorCode::kCancelled, "a reference was cancelled"};
      }
      if (seconds_since(begin_ns) > kEvaluateSeconds)
        return zygote_.drop(), module_failed(task, "it took too long");
      nap(control().done, control().done.load(), kPatience);
    }
    zygote_->count(asked_ == 1 ? "process and first answer" : "answer", begin_ns);
    std::vector<Answer> answers;
    const auto* from = reinterpret_cast<const double*>(rooms_.outputs.data());
    for (const OutputDecl& output : task.spec->outputs) {
      const auto count = element_count(task.shape_of(output.name));
      Answer& answer = answers.emplace_back();
      answer.exact.assign(from, from + count);
      answer.off.assign(from + count, from + 2 * count);
      answer.change.assign(from + 2 * count, from + 3 * count);
      answer.apart.assign(from + 3 * count, from + 4 * count);
      for (double& change : answer.change)
        if (!(change >= 0)) change = 0;
      for (double& apart : answer.apart)
        if (!(apart >= 0)) apart = 0;
      from += 4 * count;
    }
    return answers;
  }

 private:
  Oracle(ZygotePool::Loan zygote, Layout layout) : zygote_(std::move(zygote)), layout_(std::move(layout)) {}
  Control& control() const { return *reinterpret_cast<Control*>(rooms_.control.data()); }
  void ask(std::uint32_t number) { say(control().go, number); }

  /// Its process has ended.
  Error failure(const BoundTask& task) {
    const auto reply = zygote_->end_block(kEndMs);
    if (!reply.ok()) return zygote_.drop(), reply.error();
    const Error error = module_failed(task, *reply, rooms_);
    ZygotePool::Loan(std::move(zygote_));  // which is well, and goes back
    return error;
  }

  ZygotePool::Loan zygote_;
  const Layout layout_;
  Zygote::Rooms rooms_;
  std::uint32_t asked_ = 0;
};

ReferenceRoom::ReferenceRoom(const ZygoteOptions& options, CancelToken cancel)
    : zygotes_(options),
      uses_gpu_(options.gpu),
      cancel_(std::move(cancel)),
      most_busy_(options.gpu ? 1 : kMostBusy),
      most_oracles_(std::clamp(usable_processors().size(), kFewestOracles, kMostOracles)) {}
ReferenceRoom::~ReferenceRoom() = default;

Result<std::unique_ptr<ReferenceRoom::Oracle>> ReferenceRoom::take_oracle(const BoundTask& task,
                                                                          const Key& key) {
  {
    std::unique_lock lock(mutex_);
    oracle_free_.wait(lock, [&] { return busy_[key] < most_busy_; });
    ++busy_[key];
    const auto found = std::ranges::find(idle_, key, &std::pair<Key, std::unique_ptr<Oracle>>::first);
    if (found != idle_.end()) {
      auto oracle = std::move(found->second);
      idle_.erase(found);
      return oracle;
    }
  }
  make_room();
  auto started = Oracle::start(zygotes_, task, seed_of(task));
  if (!started.ok()) give_back(key, nullptr);
  return started;
}

/// An idle one leaves where there are enough: another process in its zygote takes less time than
/// another zygote, which imports torch.
void ReferenceRoom::make_room() {
  std::unique_ptr<Oracle> leaves;  // ends without the lock
  std::lock_guard lock(mutex_);
  std::size_t all = idle_.size();
  for (const auto& [key, busy] : busy_) all += static_cast<std::size_t>(busy);
  if (all <= most_oracles_ || idle_.empty()) return;
  leaves = std::move(idle_.front().second);
  idle_.erase(idle_.begin());
}

void ReferenceRoom::give_back(const Key& key, std::unique_ptr<Oracle> oracle) {
  std::unique_ptr<Oracle> leaves;  // ends without the lock
  {
    std::lock_guard lock(mutex_);
    if (--busy_[key] == 0) busy_.erase(key);
    if (oracle) idle_.emplace_back(key, std::move(oracle));
    if (idle_.size() > most_oracles_) {
      leaves = std::move(idle_.front().second);
      idle_.erase(idle_.begin());
    }
  }
  oracle_free_.notify_all();
}

Result<std::vector<ReferenceRoom::Answer>> ReferenceRoom::evaluate(const BoundTask& task,
                                                                   std::span<const HostTensor> inputs) {
  const Key key{task.spec->digest, task.dims};
  LATHE_TRY(auto oracle, take_oracle(task, key));
  auto answers = oracle->answer(task, inputs, cancel_);
  if (!oracle->works()) oracle = nullptr;
  give_back(key, std::move(oracle));
  return answers;
}

std::unique_ptr<Reference> make_process_reference(ReferenceRoom& room) {
  return std::make_unique<ProcessReference>(room);
}

}  // namespace lathe::host
