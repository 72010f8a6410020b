#include "backend/cuda/broker/cuda_backend.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "backend/cuda/broker/device_products.h"
#include "backend/cuda/broker/disassembler.h"
#include "backend/cuda/broker/keeper_client.h"
#include "backend/cuda/broker/launcher_pool.h"
#include "backend/cuda/broker/program_load.h"
#include "backend/cuda/broker/sass.h"
#include "backend/cuda/broker/session.h"
#include "backend/cuda/broker/toolchain.h"
#include "backend/cuda/broker/visible_devices.h"
#include "backend/cuda/wire/keeper_kernels.h"
#include "backend/cuda/wire/scrub_kernel.h"
#include "base/processors.h"
#include "candidate/launch_program.h"

namespace lathe {
namespace {

using namespace cuda;

constexpr int kEmptyBlocks = 25;
constexpr double kBestOverNaive = 200;  // a naive kernel gives one thread a whole row
constexpr int kCoresForQuietCompiles = 4;
constexpr double kProcessSpread = 0.013;  // measured: results/cuda/timing.md
// A lane keeps two threads busy, one of them in a launcher (results/cuda/throughput.md).
constexpr int kCoresOfLane = 2, kMostLanes = 4;
constexpr int kKeeperChannels = 8;  // lanes, and who prepares tasks beside them

/// Handles of device memory are file descriptors, hundreds for a task: more than the usual soft
/// limit.
void raise_open_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(CudaBackendOptions options, std::unique_ptr<KeeperClient> keeper,
              std::unique_ptr<Toolchain> toolchain, std::string kernels)
      : options_(std::move(options)),
        keeper_(std::move(keeper)),
        toolchain_(std::move(toolchain)),
        kernels_(std::move(kernels)),
        lane_(DeviceLane::Grain::kBlock, keeper_->facts().uuid),
        products_(keeper_, lane_),
        launchers_(options_.runner_program, launcher_arguments(options_), options_.device_environment,
                   keeper_) {
    const DeviceFacts& facts = keeper_->facts();
    device_.kind = "cuda";
    device_.dialect = Dialect::kCuda;
    device_.name = facts.name;
    device_.compiler = toolchain_->version();
    device_.driver = std::to_string(facts.driver_version);
    device_.digest_text = fmt::format("{} driver {}", device_.compiler, device_.driver);
    device_.cores = static_cast<int>(usable_processors().size());
    device_.quiet_compiles = device_.cores >= kCoresForQuietCompiles;
    device_.lanes = std::clamp(device_.cores / kCoresOfLane, 1, kMostLanes);
    device_.facts = facts_of(facts);
    device_.memory_bytes = facts.memory_bytes;
    device_.steady = true;
    device_.process_spread = kProcessSpread;
    device_.runners_remember = true;
    device_.best_over_naive = kBestOverNaive;
    device_.uuid = facts.uuid;
    if (auto nvml = Nvml::open(facts.pci); nvml.ok()) log_.emplace(*std::move(nvml));
  }

  const DeviceInfo& device() const override { return device_; }
  DeviceLane& lane() override { return lane_; }

  Result<DevicePeaks> peaks() override {
    std::lock_guard lock(mutex_);
    if (peaks_.levels.empty()) {
      LATHE_TRY(peaks_, measure_peaks());
    }
    return peaks_;
  }

  Result<DevicePeaks> remeasure_peaks() override {
    std::lock_guard lock(mutex_);
    LATHE_TRY(const DevicePeaks again, measure_peaks());
    peaks_ = peaks_.levels.empty() ? again : peaks_.best_of(again);
    return peaks_;
  }

  std::map<std::string, double> device_state(std::int64_t begin_ns, std::int64_t end_ns) const override {
    return log_ ? log_->between(begin_ns, end_ns) : std::map<std::string, double>{};
  }

  void set_peaks(const DevicePeaks& peaks) override {
    std::lock_guard lock(mutex_);
    peaks_ = peaks;
  }

  DeviceUsage usage() const override { return usage_.total(); }
  void on_idle(const Candidate& last) override {
    products_.on_idle();
    launchers_.end(last.digest.hex());
  }
  ProductEngine* products() override { return &products_; }

  using Backend::build;
  Result<BuildResult> build(const Candidate& candidate, const BoundTask& task,
                            const CancelToken& cancel) override {
    return build_plan(candidate, task,
                      [&](const std::string& text) { return toolchain_->build(text, cancel); });
  }

  Result<std::map<std::string, double>> inspect(const Artifact& artifact) override {
    std::call_once(disassembler_once_, [&] {
      disassembler_ = Disassembler::open(options_.runner_program, options_.cache_folder);
    });
    if (!disassembler_.ok()) return disassembler_.error();
    LATHE_TRY(const std::string text, (*disassembler_)->run(artifact.bytes));
    return facts_of_sass(text);
  }

  Result<std::shared_ptr<const Workload>> prepare(Workload workload) override {
    LATHE_TRY(auto made, CudaWorkload::make(std::move(workload), keeper_, lane_, device_.lanes));
    return std::shared_ptr<const Workload>(std::move(made));
  }

  using Backend::open;
  Result<std::unique_ptr<Session>> open(const Candidate& candidate, const Artifact& artifact,
                                        std::shared_ptr<const Workload> workload, Runner runner) override {
    auto held = std::dynamic_pointer_cast<const CudaWorkload>(std::move(workload));
    if (!held) return Error{ErrorCode::kInternal, "the workload was prepared by another backend"};
    LATHE_TRY(const LaunchProgram program, compile_plan(candidate, held->task, device_.facts));
    LATHE_TRY(Load load, program_load(program, *held->task.spec));
    load.layout = held->layout();
    load.scalars = held->scalars();
    const SessionOptions options{.launchers = &launchers_,
                                 .candidate = candidate.digest.hex(),
                                 .runner = runner,
                                 .empty_block_ns = empty_block_ns_,
                                 .usage = &usage_,
                                 .lane = &lane_,
                                 .log = log_ ? &*log_ : nullptr,
                                 .kernels = kernels_};
    LATHE_TRY(auto session, CudaSession::open(std::move(load), artifact.bytes, std::move(held), options));
    return std::unique_ptr<Session>(std::move(session));
  }

  /// Measures what a block costs that does nothing: later blocks are charged without it.
  Status calibrate() {
    LATHE_TRY(BuildResult scrub, toolchain_->build(kScrubKernel, {}));
    if (!scrub.ok) return Error{ErrorCode::kInternal, "the scrubber: " + scrub.facts.log};
    LATHE_CHECK_OK(launchers_.set_scrubber(scrub.artifact.bytes));
    TaskSpec spec;
    spec.outputs.push_back({"y"});
    Expected anything;
    anything.value = {{1}, {0.0}, {1e300}};
    Workload workload;
    workload.task.spec = &spec;
    workload.trials.resize(1);
    workload.trials[0].expected = {anything};
    LATHE_TRY(auto held, CudaWorkload::make(std::move(workload), keeper_, lane_, device_.lanes));
    LATHE_TRY(const BuildResult nothing, toolchain_->build("extern \"C\" __global__ void f() {}", {}));
    Load load;
    load.layout = held->layout();
    load.steps.emplace_back().kernel = "f";
    LATHE_TRY(auto session,
              CudaSession::open(
                  std::move(load), nothing.artifact.bytes, std::move(held),
                  {.launchers = &launchers_, .candidate = "calibration", .usage = &usage_, .lane = &lane_}));
    BlockRequest request;
    request.trials = {0};
    request.poison = 0;
    request.timed = true;
    double least_ns = 1e18;
    for (int i = 0; i < kEmptyBlocks; ++i) {
      const BlockOutcome outcome = session->run(request);
      if (outcome.status != BlockStatus::kOk)
        return Error{ErrorCode::kUnavailable,
                     fmt::format("an empty block failed: {} ({})", outcome.reason, outcome.detail),
                     "run lathe doctor"};
      least_ns = std::min(least_ns, outcome.wall_ns);
    }
    empty_block_ns_ = least_ns;
    return Ok{};
  }

 private:
  Result<DevicePeaks> measure_peaks() {
    const auto lease = lane_.take(DeviceLane::Use::kTiming, DeviceLane::Grain::kBlock);
    LATHE_TRY(const std::vector<double> numbers, keeper_->measure());
    if (numbers.size() != 4) return Error{ErrorCode::kInternal, "a measurement without its numbers"};
    const DeviceFacts& facts = keeper_->facts();
    DevicePeaks peaks;
    peaks.levels = {{"L2", static_cast<double>(facts.l2_bytes), numbers[1]},
                    {"DRAM", static_cast<double>(facts.memory_bytes), numbers[0]}};
    peaks.flops_per_second = numbers[2];
    peaks.tensor_flops_per_second = numbers[3];
    return peaks;
  }

  CudaBackendOptions options_;
  std::shared_ptr<KeeperClient> keeper_;
  std::unique_ptr<Toolchain> toolchain_;
  std::string kernels_;
  std::optional<DeviceLog> log_;
  DeviceInfo device_;
  DeviceLane lane_;
  double empty_block_ns_ = 0;
  UsageMeter usage_;
  DeviceProducts products_;
  SpareLaunchers launchers_;
  std::once_flag disassembler_once_;
  Result<std::unique_ptr<Disassembler>> disassembler_ = Error{ErrorCode::kUnavailable, "not looked for yet"};
  std::mutex mutex_;
  DevicePeaks peaks_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaBackendOptions& given) {
  LATHE_TRY(const CudaBackendOptions options, with_defaults(given));
  raise_open_file_limit();
  auto opened = KeeperClient::start({.program = options.runner_program,
                                     .channels = kKeeperChannels,
                                     .environment = options.device_environment});
  if (!opened.ok())
    return explain_missing(opened.error(), options.device, [&] { return list_visible(options); });
  auto keeper = *std::move(opened);
  const std::string arch = arch_of(keeper->facts());
  LATHE_TRY(auto toolchain, Toolchain::create({options.runner_program, options.include_folder,
                                               options.cache_folder, arch, options.build_timeout_seconds}));
  LATHE_TRY(const BuildResult kernels, toolchain->build(kKeeperKernels, {}));
  if (!kernels.ok) return Error{ErrorCode::kInternal, "the keeper's kernels: " + kernels.facts.log};
  LATHE_CHECK_OK(keeper->load_kernels(kernels.artifact.bytes));
  auto backend =
      std::make_unique<CudaBackend>(options, std::move(keeper), std::move(toolchain), kernels.artifact.bytes);
  LATHE_CHECK_OK(backend->calibrate());
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace lathe
