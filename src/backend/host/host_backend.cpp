#include "backend/host/host_backend.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <numeric>

#include "backend/cpu_peaks.h"
#include "backend/host/extension_builder.h"
#include "backend/host/host_session.h"
#include "backend/host/parts.h"
#include "backend/host/process_reference.h"
#include "backend/timing_cores.h"
#include "base/processors.h"
#include "base/visible_text.h"

namespace lathe {
namespace {

using namespace host;

constexpr const char* kProcessorsLane = "processor";  // the one that its kernels are timed on
constexpr int kMostExtensions = 32;
constexpr double kImportSeconds = 60, kBuildSeconds = 180;
constexpr std::size_t kMostRequest = std::size_t{2} << 20, kMostCompiled = std::size_t{48} << 20;
constexpr std::size_t kProcessorsForQuietCompiles = 3;  // besides those that are timed
constexpr double kLeastBlockNs = 1e6;
constexpr int kBuildsOnGpu = 6, kMostBuilds = 256;

/// What a gym cannot know of a process that brings its own host code.
const std::vector<std::string> kUnchecked = {
    "own_kernels",       // that the candidate's code computes, and not a library that its process contains
    "memory_bounds",     // reads and writes beside tensors, inside its own process
    "bytes_moved",       // a module says nothing of its inputs' share in memory traffic
    "constant_folding",  // what depends on shapes and parameters alone, computed before the clock starts
};

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

std::int64_t cache_bytes(int name, std::int64_t fallback) {
  const long bytes = ::sysconf(name);
  return bytes > 0 ? bytes : fallback;
}

std::string first_line_of(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto [code_point, bytes] = next_code_point(text);
    if (code_point == 0xfffd && bytes == 1) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

BuildResult refusal(std::string reason, std::string log) {
  BuildResult result{.reason = std::move(reason)};
  result.facts.log = std::move(log);
  return result;
}

/// What a build's child ended with, where that is the candidate's fault.
BuildResult refusal_of(const ChildReply& reply, const std::string& said) {
  if (WIFSIGNALED(reply.wait_status) && WTERMSIG(reply.wait_status) == SIGSYS) {
    BuildResult result =
        refusal("forbidden_syscall", "the module made a forbidden system call at its import");
    result.outcome = Outcome::kTampered;
    return result;
  }
  if (WIFSIGNALED(reply.wait_status) && WTERMSIG(reply.wait_status) == SIGKILL)
    return refusal("import_timeout", fmt::format("not imported after {:.0f} s", kImportSeconds));
  if (reply.exited_with(kExitImport)) return refusal("import_error", said);
  if (reply.exited_with(kExitEntry)) return refusal("entry_error", said);
  if (reply.exited_with(kExitState)) return refusal("state_mismatch", said);
  if (reply.exited_with(kExitMemory)) return refusal("device_memory", said);
  return refusal("import_exit", "the process ended while the module was imported");
}

ZygoteOptions on_device(ZygoteOptions options, const HostGpu* gpu) {
  options.gpu = gpu != nullptr;
  return options;
}

bool has_quiet_compiles(const TimingCores& cores) {
  return cores.others.size() >= kProcessorsForQuietCompiles;
}

/// How many builds run a module at once. On a GPU each has a context, half a GB of memory, and
/// whatever its candidate takes.
class BuildPlaces {
 public:
  explicit BuildPlaces(int places) : places_(places), free_(places) {}

  class Held {
   public:
    Held(BuildPlaces& all, int count) : all_(all), count_(count) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      {
        std::lock_guard lock(all_.mutex_);
        all_.free_ += count_;
      }
      all_.changed_.notify_all();
    }

   private:
    BuildPlaces& all_;
    const int count_;
  };
  /// No place is held where the wait was cancelled.
  Held take_one(const CancelToken& cancel) { return take(1, cancel); }
  /// Waits until no other build runs one, and keeps new ones from starting.
  Held take_all(const CancelToken& cancel) { return take(places_, cancel); }

 private:
  Held take(int count, const CancelToken& cancel) {
    std::unique_lock lock(mutex_);
    const bool all = count == places_;
    waiting_for_all_ += all;
    const auto must_wait = [&] { return free_ < count || (!all && waiting_for_all_ > 0); };
    while (must_wait() && !cancel.cancelled()) changed_.wait_for(lock, std::chrono::milliseconds(50));
    waiting_for_all_ -= all;
    const int taken = must_wait() ? 0 : count;
    free_ -= taken;
    return {*this, taken};
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const int places_;
  int free_, waiting_for_all_ = 0;
};

class HostBackend final : public Backend {
 public:
  HostBackend(const HostBackendOptions& options, HostParts parts, TimingCores cores)
      : options_(options),
        lane_(DeviceLane::Grain::kStage, options.gpu ? options.gpu->device().uuid : kProcessorsLane),
        candidates_(on_device(parts.zygotes, options.gpu.get())),
        baselines_(on_device(parts.zygotes, options.gpu.get())),
        references_(on_device(parts.zygotes, options.gpu.get()), options.cancel),
        build_places_(options.gpu ? kBuildsOnGpu : kMostBuilds),
        extensions_(parts.python, {parts.compile_program, parts.cache_folder, options.build_timeout_seconds,
                                   options.gpu ? options.gpu->arch() : "", options.jail,
                                   has_quiet_compiles(cores) ? cores.others : std::vector<int>()}) {
    if (options.gpu) {
      device_ = options.gpu->device();
      device_.kind = "host:cuda";
      device_.builds_every_shape = true;
      peaks_ = options.gpu->peaks();
    } else {
      device_.kind = "host:cpu";
      device_.name = processor_name();
      device_.uuid = first_line_of("/etc/machine-id");
    }
    device_.compiler = parts.python.version;
    device_.digest_text = parts.python.version + device_.driver;
    device_.jail = name(options.jail);
    device_.threads = options.threads;
    device_.tier = "HOST";
    device_.unchecked = kUnchecked;
    device_.least_block_ns = kLeastBlockNs;
    device_.best_over_naive = 4;
    const std::vector<int> cpus = usable_processors();
    device_.cores = static_cast<int>(cpus.size());
    device_.quiet_compiles = has_quiet_compiles(cores);
    device_.deals_trials = options.gpu != nullptr;
    session_.threads = options.threads;
    session_.gpu = options.gpu.get();
    if (options.gpu) return;  // its driver has threads of its own, which need processors
    device_.facts = {{"threads", options.threads},
                     {"cores", device_.cores},
                     {"l1_bytes", cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10)},
                     {"l2_bytes", cache_bytes(_SC_LEVEL2_CACHE_SIZE, 512 << 10)},
                     {"l3_bytes", cache_bytes(_SC_LEVEL3_CACHE_SIZE, 8 << 20)}};
    session_.timed_cpus = std::move(cores.timed);
    session_.broker_cpus = std::move(cores.others);
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
    if (!options_.gpu) peaks_ = peaks_.best_of(measure_cpu_peaks(options_.threads, device_.facts));
    return peaks_;
  }
  void set_peaks(const DevicePeaks& peaks) override {
    std::lock_guard lock(mutex_);
    if (!options_.gpu) peaks_ = peaks;
  }

  Result<std::unique_ptr<Reference>> make_reference(const TaskSpec& spec) override {
    if (spec.reference != ReferenceKind::kProcess)
      return invalid(
          "'" + spec.name + "' has no process reference, and " + device_.kind + " runs Python modules alone",
          "give the task a [reference] of kind \"process\" (docs/host.md), or write a kernel for "
          "--device cpu or cuda (docs/candidates.md)",
          {spec.path, 0, 0});
    return make_process_reference(references_);
  }

  Result<TaskSpec> complete(TaskSpec spec) { return references_.complete(std::move(spec)); }

  using Backend::build;
  Result<BuildResult> build(const Candidate& candidate, const BoundTask& task,
                            const CancelToken& cancel) override {
    if (candidate.has_plan())
      return refusal("plan",
                     "this device runs host programs, and its tasks have process references: a kernel with "
                     "a plan needs another device");
    if (candidate.host_program().language != "python")
      return refusal("language", "this device runs Python, not '" + candidate.host_program().language + "'");
    if (!is_utf8(candidate.text)) return refusal("import_error", "the module is not in UTF-8");
    auto model = std::make_shared<const Model>();
    if (task.spec->reference == ReferenceKind::kProcess) {
      LATHE_TRY(model, references_.model(task));
    }
    const std::size_t most_text = options_.gpu ? kMostCompiled : kMostRequest;
    LATHE_TRY(const Zygote::Rooms rooms, Zygote::make_rooms({.text = most_text}));
    nlohmann::json document =
        describe_program({candidate.text, candidate.host_program().entry}, task, *model);
    document["cpus"] = session_.broker_cpus;  // what is timed meanwhile is left alone
    Extensions extensions;
    BuildFacts facts;
    for (;;) {
      document["extensions"] = extensions.requests;
      auto reply = run_build(document, rooms, *model, extensions, cancel);
      // Another candidate may have taken the GPU's memory: that is not this one's fault.
      const bool full = reply.ok() && (!reply->confined || reply->exited_with(kExitMemory));
      if (full && options_.gpu) {
        const BuildPlaces::Held alone = build_places_.take_all(cancel);
        reply = run_build_step(document, rooms, *model, extensions, cancel);
      }
      if (!reply.ok()) return reply.error();
      if (reply->exited_with(kExitBuilt)) {
        if (options_.gpu) extensions.compiled = raw_text_of(rooms, most_text);
        break;
      }
      if (!reply->confined)
        return Error{ErrorCode::kUnavailable, "a build could not be prepared: " + text_of(rooms),
                     "run lathe doctor"};
      if (!reply->exited_with(kExitExtension)) return refusal_of(*reply, text_of(rooms));
      if (extensions.requests.size() >= kMostExtensions)
        return refusal("bad_extension", fmt::format("more than {} extensions", kMostExtensions));
      const std::string request = raw_text_of(rooms, kMostRequest);
      LATHE_TRY(CompiledExtension made, extensions_.build(request, cancel));
      facts.seconds += made.seconds;
      facts.log += made.log;
      if (!made.ok) {
        BuildResult failed = refusal(made.reason, made.log);
        failed.facts.seconds = facts.seconds;
        return failed;
      }
      facts.code_bytes += static_cast<std::int64_t>(made.object.size());
      extensions.requests.push_back(request);
      extensions.objects.push_back(std::move(made.object));
    }
    BuildResult result{.ok = true};
    result.artifact.bytes = encode(extensions);
    result.artifact.key =
        Hasher().add(device_.digest_text).add(candidate.text).add(result.artifact.bytes).finish();
    result.facts = std::move(facts);
    return result;
  }

  Result<std::shared_ptr<const Workload>> prepare(Workload workload) override {
    auto made = std::make_shared<HostWorkload>();
    static_cast<Workload&>(*made) = std::move(workload);
    if (made->task.spec->reference == ReferenceKind::kProcess) {
      LATHE_TRY(made->model, references_.model(made->task));
    }
    return std::shared_ptr<const Workload>(std::move(made));
  }

  using Backend::open;
  /// No process serves two sessions, so a reused runner is as good as a fresh one. The gym's own
  /// modules have zygotes of their own.
  Result<std::unique_ptr<Session>> open(const Candidate& candidate, const Artifact& artifact,
                                        std::shared_ptr<const Workload> workload, Runner runner) override {
    auto own = std::dynamic_pointer_cast<const HostWorkload>(std::move(workload));
    if (!own) return Error{ErrorCode::kInternal, "the workload was prepared by another backend"};
    LATHE_TRY(const Extensions extensions, decode_extensions(artifact.bytes));
    LATHE_TRY(auto session, HostSession::open(runner.process == Runner::kShared ? baselines_ : candidates_,
                                              candidate, extensions, std::move(own), session_));
    return std::unique_ptr<Session>(std::move(session));
  }

  /// Measures what a call costs that does nothing, which is subtracted from every call.
  Status calibrate() {
    constexpr const char* kNothing =
        "\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"nothing\"\n\"\"\"\n"
        "def nothing(x):\n    return x\n";
    constexpr int kCalls = 20, kBlocks = 5;
    constexpr double kSureShare = 0.8;  // the mean of a block is more than the least of its calls
    TaskSpec spec;
    spec.tensors.push_back({.name = "x", .shape = {Expr::constant(1)}});
    spec.outputs.push_back({.name = "y", .shape = {Expr::constant(1)}});
    LATHE_TRY(const Candidate nothing, parse_candidate(kNothing, "nothing"));
    auto workload = std::make_shared<HostWorkload>();
    LATHE_TRY(workload->task, lathe::bind(spec, {}));
    const std::vector<double> zero = {0};
    Expected anything{.name = "y", .value = {{1}, zero, {1e300}}};
    for (int i = 0; i < kCalls; ++i)
      workload->trials.push_back(
          {.inputs = {HostTensor::encode(DType::kF32, {1}, zero)}, .expected = {anything}});
    LATHE_TRY(auto session, HostSession::open(baselines_, nothing, {}, workload, session_));
    const DeviceLane::Lease lease =
        lane_.take(DeviceLane::Use::kTiming, DeviceLane::Grain::kStage, options_.cancel);
    if (options_.gpu) {
      LATHE_CHECK_OK(measure_empty_windows());
    }
    BlockRequest request;
    request.trials.resize(kCalls);
    std::iota(request.trials.begin(), request.trials.end(), 0);
    request.poison = 0;
    request.timed = true;
    double least_ns = 1e18;
    for (int block = 0; block < kBlocks; ++block) {
      const BlockOutcome outcome = session->run(request);
      if (outcome.status != BlockStatus::kOk)
        return Error{ErrorCode::kUnavailable,
                     fmt::format("an empty block failed: {} ({})", outcome.reason, outcome.detail),
                     "run lathe doctor"};
      least_ns = std::min(least_ns, outcome.wall_ns / kCalls);
    }
    session_.empty_call_ns = kSureShare * least_ns;
    return Ok{};
  }

 private:
  Result<ChildReply> run_build(const nlohmann::json& document, const Zygote::Rooms& rooms, const Model& model,
                               const Extensions& extensions, const CancelToken& cancel) {
    const BuildPlaces::Held place = build_places_.take_one(cancel);
    return run_build_step(document, rooms, model, extensions, cancel);
  }
  /// The zygote is free again while what the candidate wants is compiled.
  Result<ChildReply> run_build_step(const nlohmann::json& document, const Zygote::Rooms& rooms,
                                    const Model& model, const Extensions& extensions,
                                    const CancelToken& cancel) {
    if (cancel.cancelled()) return Error{ErrorCode::kCancelled, "a build was cancelled"};
    LATHE_TRY(auto zygote, candidates_.take());
    const Status loaded = zygote->load(document.dump(), rooms, model.state_memory, extensions);
    auto reply = loaded.ok() ? zygote->run_step('s', rooms, import_seconds(), cancel)
                             : Result<ChildReply>(loaded.error());
    if (!reply.ok()) zygote.drop();
    return reply;
  }

  /// On a GPU a build runs the module once, and compiles what it compiles then.
  double import_seconds() const { return options_.gpu ? kBuildSeconds : kImportSeconds; }

  Status measure_empty_windows() {
    LATHE_TRY(const UniqueFd inputs, make_memfd("inputs", kPageBytes));
    LATHE_TRY(const UniqueFd outputs, make_memfd("outputs", kPageBytes));
    LATHE_TRY(const auto windows, options_.gpu->open({kPageBytes, kPageBytes}, inputs, outputs));
    LATHE_TRY(session_.empty_costs, windows->measure());
    return Ok{};
  }

  HostBackendOptions options_;
  DeviceInfo device_;
  DeviceLane lane_;
  HostSessionOptions session_;
  ZygotePool candidates_, baselines_;
  ReferenceRoom references_;
  BuildPlaces build_places_;
  ExtensionBuilder extensions_;
  std::mutex mutex_;
  DevicePeaks peaks_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_host_backend(const HostBackendOptions& options) {
  if (options.threads < 1) return invalid(fmt::format("{} threads", options.threads), "use at least one");
  LATHE_TRY(HostParts parts, find_parts(options));
  const std::vector<int> processors = usable_processors();
  auto backend = std::make_unique<HostBackend>(
      options, std::move(parts), choose_timing_cores(processors, cores_of(processors), options.threads));
  LATHE_CHECK_OK(backend->calibrate());
  return std::unique_ptr<Backend>(std::move(backend));
}

Result<TaskSpec> complete_task(Backend& backend, TaskSpec spec) {
  auto* const host = dynamic_cast<HostBackend*>(&backend);
  if (!host) return Error{ErrorCode::kInternal, "the backend is no host backend"};
  if (spec.reference != ReferenceKind::kProcess)
    return invalid(
        host->device().kind + " takes tasks with a process reference alone, and '" + spec.name + "' has none",
        "use another device", {spec.path, 0, 0});
  return host->complete(std::move(spec));
}

}  // namespace lathe
