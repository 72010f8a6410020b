#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <thread>

#include "backend/cpu/session.h"
#include "backend/cpu/slots.h"
#include "backend/cpu/toolchain.h"
#include "backend/cpu_peaks.h"
#include "backend/installation.h"
#include "backend/timing_cores.h"
#include "base/memory.h"
#include "base/processors.h"
#include "candidate/launch_program.h"

namespace lathe {
namespace {

constexpr int kEmptyBlocks = 25;
constexpr std::size_t kProcessorsForQuietCompiles = 3;  // besides those that are timed
constexpr const char* kLaneName = "processor";  // however many cores are timed: all share caches and memory

std::int64_t cache_bytes(int name, std::int64_t fallback) {
  const long bytes = ::sysconf(name);
  return bytes > 0 ? bytes : fallback;
}

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

/// Empty where the system has given the machine no name.
std::string machine_id() {
  std::ifstream file("/etc/machine-id");
  std::string id;
  std::getline(file, id);
  return id;
}

protocol::ArgKind scalar_kind(DType dtype) {
  using protocol::ArgKind;
  switch (dtype) {
    case DType::kF64:
      return ArgKind::kScalarF64;
    case DType::kF32:
      return ArgKind::kScalarF32;
    case DType::kF16:
      return ArgKind::kScalarF16;
    case DType::kBF16:
      return ArgKind::kScalarBits16;
    case DType::kI8:
      return ArgKind::kScalarI8;
    case DType::kI32:
      return ArgKind::kScalarI32;
    case DType::kI64:
      return ArgKind::kScalarI64;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kBool:
    case DType::kU8:
      break;
  }
  return ArgKind::kScalarBits8;
}

protocol::Arg to_protocol(const BoundArg& arg, const TaskSpec& spec) {
  if (const auto* integer = std::get_if<std::int64_t>(&arg)) return {protocol::ArgKind::kInteger, *integer};
  if (const auto* scalar = std::get_if<ScalarRef>(&arg))
    return {scalar_kind(spec.tensors[static_cast<std::size_t>(scalar->input)].dtype), scalar->input};
  const auto& buffer = std::get<BufferRef>(arg);
  if (buffer.kind == BufferRef::Kind::kInput) return {protocol::ArgKind::kInput, buffer.index};
  if (buffer.kind == BufferRef::Kind::kOutput) return {protocol::ArgKind::kOutput, buffer.index};
  return {protocol::ArgKind::kScratch, buffer.index};
}

protocol::ScratchFill to_protocol(ScratchInit init) {
  if (init == ScratchInit::kZero) return protocol::ScratchFill::kZero;
  return init == ScratchInit::kCounter ? protocol::ScratchFill::kCounter : protocol::ScratchFill::kPoison;
}

Status check_scalars(const protocol::Load& load) {
  for (const protocol::Step& step : load.steps)
    if (!step.is_node && step.reals() > protocol::kMaxReals)
      return refused("too_many_scalars",
                     fmt::format("'{}' takes {} floating-point scalars", step.kernel, step.reals()),
                     fmt::format("a kernel takes at most {} on a processor: make several kernels of it",
                                 protocol::kMaxReals));
  return Ok{};
}

/// Each block fills its scratch and so has all of it: what is more than a machine can spare would
/// cost other processes their memory.
Status check_scratch(const LaunchProgram& program, std::int64_t memory_bytes) {
  constexpr std::int64_t kShare = 4;
  std::int64_t total = 0;
  for (const BoundScratch& scratch : program.scratch) total += scratch.bytes;
  if (memory_bytes == 0 || total <= memory_bytes / kShare) return Ok{};
  return refused("scratch_too_large", fmt::format("the scratch buffers want {} bytes", total),
                 fmt::format("they may take at most a quarter of the machine's memory, here {} bytes",
                             memory_bytes / kShare));
}

bool has_quiet_compiles(const TimingCores& cores) {
  return cores.others.size() >= kProcessorsForQuietCompiles;
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(CpuBackendOptions options, TimingCores cores, std::unique_ptr<Toolchain> toolchain)
      : options_(std::move(options)), toolchain_(std::move(toolchain)), runner_cpus_(std::move(cores.timed)) {
    device_.kind = "cpu";
    device_.name = processor_name();
    device_.digest_text = device_.compiler = toolchain_->version();
    device_.uuid = machine_id();
    device_.jail = name(options_.jail);
    device_.threads = options_.threads;
    const std::vector<int> cpus = usable_processors();
    device_.cores = static_cast<int>(cpus.size());
    device_.quiet_compiles = has_quiet_compiles(cores);
    session_.broker_cpus =
        cores.others.empty() ? processors_besides(cpus, runner_cpus_) : std::move(cores.others);
    device_.facts = {{"threads", options_.threads},
                     {"cores", device_.cores},
                     {"l1_bytes", cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10)},
                     {"l2_bytes", cache_bytes(_SC_LEVEL2_CACHE_SIZE, 512 << 10)},
                     {"l3_bytes", cache_bytes(_SC_LEVEL3_CACHE_SIZE, 8 << 20)},
                     {"vector_bytes", __builtin_cpu_supports("avx512f") ? 64 : 32},
                     {"bf16_pairs", __builtin_cpu_supports("avx512bf16") ? 1 : 0}};
  }

  const DeviceInfo& device() const override { return device_; }
  DeviceLane& lane() override { return lane_; }

  Result<DevicePeaks> peaks() override {
    std::lock_guard lock(mutex_);
    if (peaks_.levels.empty()) peaks_ = measure_cpu_peaks(options_.threads, device_.facts);
    return peaks_;
  }

  Result<DevicePeaks> remeasure_peaks() override {
    std::lock_guard lock(mutex_);
    peaks_ = peaks_.best_of(measure_cpu_peaks(options_.threads, device_.facts));
    return peaks_;
  }

  void set_peaks(const DevicePeaks& peaks) override {
    std::lock_guard lock(mutex_);
    peaks_ = peaks;
  }

  using Backend::build;
  Result<BuildResult> build(const Candidate& candidate, const BoundTask& task,
                            const CancelToken& cancel) override {
    return build_plan(candidate, task,
                      [&](const std::string& text) { return toolchain_->build(text, cancel); });
  }

  Result<std::shared_ptr<const Workload>> prepare(Workload workload) override {
    LATHE_TRY(auto made, CpuWorkload::make(std::move(workload)));
    return std::shared_ptr<const Workload>(std::move(made));
  }

  using Backend::open;
  /// Every block runs in a process of its own, so a reused runner is as good as a fresh one.
  Result<std::unique_ptr<Session>> open(const Candidate& candidate, const Artifact& artifact,
                                        std::shared_ptr<const Workload> workload, Runner) override {
    auto cpu_workload = std::dynamic_pointer_cast<const CpuWorkload>(std::move(workload));
    if (!cpu_workload) return Error{ErrorCode::kInternal, "the workload was prepared by another backend"};
    LATHE_TRY(const LaunchProgram program, compile_plan(candidate, cpu_workload->task, device_.facts));
    if (!program.maps.empty()) return refused("bad_tma", "a processor has no tensor maps");
    LATHE_CHECK_OK(check_scratch(program, options_.memory_bytes));
    const protocol::Load load = make_load(program, *cpu_workload);
    LATHE_CHECK_OK(check_scalars(load));
    const bool needs_vendor =
        std::any_of(load.steps.begin(), load.steps.end(), [](const auto& step) { return step.is_node; });
    LATHE_TRY(HelperProcess runner, take_runner(needs_vendor));
    LATHE_TRY(auto session,
              CpuSession::open(std::move(runner), load, artifact, std::move(cpu_workload), session_));
    return std::unique_ptr<Session>(std::move(session));
  }

  /// Measures the cost of a block without calls, which is subtracted from later blocks.
  Status calibrate() {
    TaskSpec spec;
    spec.outputs.push_back({"y"});
    Expected anything;
    anything.value = {{1}, {0.0}, {1e300}};
    Workload workload;
    workload.task.spec = &spec;
    workload.trials.resize(1);
    workload.trials[0].expected = {anything};
    LATHE_TRY(auto made, CpuWorkload::make(std::move(workload)));
    const protocol::Load load = make_load({}, *made);
    LATHE_TRY(HelperProcess runner, take_runner(false));
    LATHE_TRY(auto session, CpuSession::open(std::move(runner), load, {}, std::move(made), session_));
    BlockRequest request;
    request.trials = {0};
    request.poison = 0;
    const DeviceLane::Lease lease =
        lane_.take(DeviceLane::Use::kTiming, DeviceLane::Grain::kStage, options_.cancel);
    double least_ns = 1e18;
    for (int i = 0; i < kEmptyBlocks; ++i) {
      const BlockOutcome outcome = session->run(request);
      if (outcome.status != BlockStatus::kOk)
        return Error{ErrorCode::kUnavailable,
                     fmt::format("an empty block failed: {} ({})", outcome.reason, outcome.detail),
                     "run lathe doctor"};
      least_ns = std::min(least_ns, outcome.wall_ns);
    }
    session_.empty_block_ns = least_ns;
    return Ok{};
  }

 private:
  protocol::Load make_load(const LaunchProgram& program, const CpuWorkload& workload) const {
    protocol::Load load;
    load.threads = options_.threads;
    load.cpus = runner_cpus_;
    load.trials = static_cast<std::uint32_t>(workload.trials.size());
    load.inputs = workload.inputs();
    load.outputs = workload.outputs();
    for (const BoundScratch& scratch : program.scratch)
      load.scratch.push_back({static_cast<std::uint64_t>(scratch.bytes), to_protocol(scratch.init)});
    for (const BoundStep& step : program.steps) {
      protocol::Step& to = load.steps.emplace_back();
      to.is_node = step.kind == PlanStep::Kind::kNode;
      to.kernel = to.is_node ? step.node_text : step.kernel;
      to.items = step.items;
      for (const BoundArg& arg : step.args) to.args.push_back(to_protocol(arg, *workload.task.spec));
    }
    return load;
  }

  /// Takes a spare runner that is already confined, so that opening a session need not wait for
  /// one, and starts its replacement.
  Result<HelperProcess> take_runner(bool with_vendor) {
    if (with_vendor) return spawn_runner(options_.vendor_library);
    std::lock_guard lock(mutex_);
    while (spares_.size() < 2) {
      LATHE_TRY(HelperProcess spare, spawn_runner("-"));
      spares_.push_back(std::move(spare));
    }
    HelperProcess runner = std::move(spares_.front());
    spares_.erase(spares_.begin());
    return runner;
  }

  Result<HelperProcess> spawn_runner(const std::string& vendor_library) const {
    return HelperProcess::spawn(options_.runner_program,
                                {"run", std::string(name(options_.jail)), vendor_library});
  }

  CpuBackendOptions options_;
  std::unique_ptr<Toolchain> toolchain_;
  DeviceInfo device_;
  DeviceLane lane_{DeviceLane::Grain::kStage, kLaneName};
  std::vector<int> runner_cpus_;
  SessionOptions session_;
  std::mutex mutex_;
  DevicePeaks peaks_;
  std::vector<HelperProcess> spares_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuBackendOptions& given) {
  CpuBackendOptions options = given;
  LATHE_TRY(options.runner_program, find_program(options.runner_program, "lathe-runner"));
  LATHE_TRY(options.vendor_library, find_vendor_library(options.vendor_library, "liblathe_vendor.so"));
  if (options.include_folder.empty()) {
    LATHE_TRY(options.include_folder, device_header_folder());
  }
  if (options.cache_folder.empty()) {
    LATHE_TRY(options.cache_folder, default_cache_folder());
  }
  if (options.memory_bytes == 0) options.memory_bytes = total_memory().value_or(0);
  if (options.threads < 1) return invalid(fmt::format("{} threads", options.threads), "use at least one");
  const std::vector<int> processors = usable_processors();
  TimingCores cores = choose_timing_cores(processors, cores_of(processors), options.threads);
  LATHE_TRY(auto toolchain,
            Toolchain::create({options.runner_program, options.include_folder, options.cache_folder,
                               options.build_timeout_seconds, options.jail,
                               has_quiet_compiles(cores) ? cores.others : std::vector<int>{}}));
  auto backend = std::make_unique<CpuBackend>(options, std::move(cores), std::move(toolchain));
  LATHE_CHECK_OK(backend->calibrate());
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace lathe
