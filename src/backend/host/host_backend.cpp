#include "backend/host/host_backend.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <thread>

#include "backend/cpu_peaks.h"
#include "backend/host/extension_builder.h"
#include "backend/host/host_session.h"
#include "backend/host/parts.h"
#include "backend/host/process_reference.h"
#include "backend/timing_cores.h"
#include "base/clock.h"
#include "base/processors.h"
#include "base/visible_text.h"

namespace lathe {
namespace {

using namespace host;

constexpr const char* kProcessorsLane = "processor";  // the one that its kernels are timed on
constexpr int kMostExtensions = 32;
constexpr double kImportSeconds = 60, kBuildSeconds = 180;
constexpr const char* kCalled = "called";  // as device/host/worker.py
constexpr std::size_t kMostRequest = std::size_t{2} << 20, kMostCompiled = std::size_t{48} << 20;
constexpr std::size_t kProcessorsForQuietCompiles = 3;  // besides those that are timed
constexpr double kLeastBlockNs = 1e6;
constexpr int kCoresBesideGpu = 2;  // that no compiler runs on
constexpr double kSilenceSeconds = 0.3, kLongestSilenceWait = 10;
constexpr double kProcessSpread = 0.06;  // of calls on a GPU; measured: results/cuda/host.md
constexpr int kBuildsOnGpu = 6, kMostBuilds = 256, kEvaluationsOnGpu = 8;
constexpr std::size_t kMostSections = 16;  // of a process, each with its parameters' memory
constexpr std::size_t kMostSharedBytes = std::size_t{512} << 20;
constexpr std::size_t kMostKept = 4;  // processes of baselines, each with a context

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

/// How a process ended that said nothing.
std::string end_of(const ChildReply& reply) {
  if (WIFSIGNALED(reply.wait_status))
    return fmt::format("was killed by signal {}", WTERMSIG(reply.wait_status));
  const int code = WEXITSTATUS(reply.wait_status);
  if (code == kExitFault + SIGSEGV || code == kExitFault + SIGBUS)
    return "accessed memory that it must not, or nested too deeply";
  if (code > kExitFault) return fmt::format("ended by signal {}", code - kExitFault);
  return fmt::format("ended with code {}", code);
}

/// What a build's child ended with, where that is the candidate's fault.
BuildResult refusal_of(const ChildReply& reply, const std::string& said, bool on_gpu) {
  if (WIFSIGNALED(reply.wait_status) && WTERMSIG(reply.wait_status) == SIGSYS) {
    BuildResult result =
        refusal("forbidden_syscall", "the module made a forbidden system call at its import");
    result.outcome = Outcome::kTampered;
    return result;
  }
  if (WIFSIGNALED(reply.wait_status) && WTERMSIG(reply.wait_status) == SIGKILL)
    return refusal("import_timeout",
                   fmt::format("not imported after {:.0f} s", on_gpu ? kBuildSeconds : kImportSeconds));
  if (reply.exited_with(kExitImport)) return refusal("import_error", said);
  if (reply.exited_with(kExitEntry)) return refusal("entry_error", said);
  if (reply.exited_with(kExitState)) return refusal("state_mismatch", said);
  if (on_gpu && reply.exited_with(kExitMemory)) return refusal("device_memory", said);
  return refusal("import_exit", "while the module was imported its process " + end_of(reply));
}

ZygoteOptions for_whom(ZygoteOptions options, std::string owner, const HostGpu* gpu,
                       const std::shared_ptr<ProcessTally>& tally) {
  options.gpu = gpu != nullptr;
  options.owner = std::move(owner);
  options.tally = tally;
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
        candidates_(for_whom(parts.zygotes, "candidates", options.gpu.get(), tally_)),
        baselines_(for_whom(parts.zygotes, "baselines", options.gpu.get(), tally_)),
        references_(for_whom(parts.zygotes, "references", options.gpu.get(), tally_), options.cancel),
        build_places_(options.gpu ? kBuildsOnGpu : kMostBuilds),
        extensions_(parts.python, {parts.compile_program, parts.cache_folder, options.build_timeout_seconds,
                                   options.gpu ? options.gpu->arch() : "", options.jail,
                                   has_quiet_compiles(cores) ? cores.others : std::vector<int>()}) {
    if (options.gpu) {
      device_ = options.gpu->device();
      device_.kind = "host:cuda";
      device_.process_spread = kProcessSpread;
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
    session_.serves_on = options.gpu != nullptr || options.few_processes;
    device_.builds_every_shape = session_.serves_on;
    device_.deals_trials = session_.serves_on;
    device_.evaluations = options.gpu ? kEvaluationsOnGpu : 1;
    device_.runners_remember = session_.serves_on;
    device_.shapes_share_processes = session_.serves_on;
    session_.threads = options.threads;
    session_.last_timed_ns = std::make_shared<std::atomic<std::int64_t>>(0);
    session_.gpu = options.gpu.get();
    if (options.gpu) session_.spin_ns = spin_ns_of_waiters();
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
  /// Its stages are processes, by whose they are and what for, and the parts of their blocks.
  DeviceUsage usage() const override {
    DeviceUsage usage;
    usage.stages = tally_->stages();
    for (const auto& [purpose, stage] : usage.stages)
      if (purpose.ends_with("block: calls")) {
        usage.blocks += stage.count;
        usage.busy_seconds += stage.seconds;
      }
    return usage;
  }

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
    const BoundTask* const only = &task;
    return build_together(candidate, {&only, 1}, cancel);
  }
  /// One process imports the module and goes through the shapes.
  Result<BuildResult> build_together(const Candidate& candidate, std::span<const BoundTask* const> tasks,
                                     const CancelToken& cancel) override {
    if (candidate.has_plan())
      return refusal("plan",
                     "this device runs host programs, and its tasks have process references: a kernel with "
                     "a plan needs another device");
    if (candidate.host_program().language != "python")
      return refusal("language", "this device runs Python, not '" + candidate.host_program().language + "'");
    if (!is_utf8(candidate.text)) return refusal("import_error", "the module is not in UTF-8");
    std::vector<std::shared_ptr<const Model>> models;
    std::vector<Section> sections;
    for (const BoundTask* task : tasks) {
      models.emplace_back();
      if (task->spec->reference == ReferenceKind::kProcess) {
        LATHE_TRY(models.back(), references_.model(*task));
      }
      sections.push_back({task, models.back().get()});
    }
    Building building{.candidate = candidate, .sections = std::move(sections), .cancel = cancel};
    LATHE_TRY(building.rooms, Zygote::make_rooms({.text = options_.gpu ? kMostCompiled : kMostRequest}));
    // What it asks for at its import is compiled before it has a context, which others may need.
    if (options_.gpu && candidate.text.find("load_inline") != std::string::npos) {
      const auto imported = run_build_step('i', building);
      if (!imported.ok()) return imported.error();
      if (building.refused) return *std::move(building.refused);
    }
    LATHE_TRY(const ChildReply reply, run_build(building));
    if (building.refused) return *std::move(building.refused);
    if (!reply.confined)
      return Error{ErrorCode::kUnavailable, "a build could not be prepared: " + text_of(building.rooms),
                   "run lathe doctor"};
    if (!reply.exited_with(kExitBuilt) && text_of(building.rooms) != kCalled)
      return refusal_of(reply, text_of(building.rooms), options_.gpu != nullptr);
    if (options_.gpu && reply.exited_with(kExitBuilt))
      building.extensions.compiled = raw_text_of(building.rooms, kMostCompiled);
    BuildResult result{.ok = true};
    result.artifact.bytes = encode(building.extensions);
    result.artifact.key =
        Hasher().add(device_.digest_text).add(candidate.text).add(result.artifact.bytes).finish();
    result.facts = std::move(building.facts);
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
    const bool shared = runner.process == Runner::kShared;
    const bool keeps = shared && own->timed && session_.serves_on;
    if (keeps)
      if (auto kept = take_kept(candidate, *own)) return keep(std::move(kept));
    LATHE_TRY(const auto program,
              make_program(shared ? baselines_ : candidates_, candidate, artifact, {std::move(own)}));
    auto household = std::make_shared<HostHousehold>(program, 1);
    if (keeps) return keep(std::move(household));
    return std::unique_ptr<Session>(std::make_unique<HostSession>(std::move(household), 0));
  }

  Result<std::vector<std::unique_ptr<Session>>> open_together(const Candidate& candidate,
                                                              std::span<const Opening> openings,
                                                              Runner runner) override {
    if (!openings.empty()) renew_kept(*openings.front().workload->task.spec);
    std::vector<std::unique_ptr<Session>> sessions;
    std::size_t first = 0;
    while (first < openings.size()) {
      const std::size_t count = count_sharing(openings.subspan(first));
      std::vector<std::shared_ptr<const HostWorkload>> workloads;
      for (const Opening& opening : openings.subspan(first, count)) {
        workloads.push_back(std::dynamic_pointer_cast<const HostWorkload>(opening.workload));
        if (!workloads.back())
          return Error{ErrorCode::kInternal, "the workload was prepared by another backend"};
      }
      LATHE_TRY(const auto program, make_program(runner.process == Runner::kShared ? baselines_ : candidates_,
                                                 candidate, *openings[first].artifact, std::move(workloads)));
      const auto household = std::make_shared<HostHousehold>(program, 2);
      for (std::size_t section = 0; section < count; ++section)
        sessions.push_back(std::make_unique<HostSession>(household, section));
      first += count;
    }
    return sessions;
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
    LATHE_TRY(const auto program, make_program(baselines_, nothing, {}, {workload}));
    const auto session = std::make_unique<HostSession>(std::make_shared<HostHousehold>(program, 1), 0);
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
  Result<std::shared_ptr<const HostProcess::Program>> make_program(
      ZygotePool& zygotes, const Candidate& candidate, const Artifact& artifact,
      std::vector<std::shared_ptr<const HostWorkload>> workloads) const {
    LATHE_TRY(Extensions extensions, decode_extensions(artifact.bytes));
    return std::make_shared<const HostProcess::Program>(
        HostProcess::Program{zygotes, candidate, std::move(extensions), std::move(workloads), session_});
  }

  /// How many from the first on may share processes: they have one artefact, and what is mapped for
  /// the largest of them serves all.
  static std::size_t count_sharing(std::span<const Opening> openings) {
    std::size_t count = 0, bytes = 0, trials = 0;
    for (const Opening& opening : openings) {
      bytes = std::max(bytes, lay_out_outputs(opening.workload->task).bytes);
      trials = std::max(trials, opening.workload->trials.size());
      const bool fits = bytes * trials <= kMostSharedBytes && count < kMostSections &&
                        opening.artifact->key == openings.front().artifact->key;
      if (count > 0 && !fits) break;
      ++count;
    }
    return count;
  }

  /// The process of a baseline that candidates are timed against outlives its session.
  class KeptSession final : public Session {
   public:
    KeptSession(HostBackend& backend, std::shared_ptr<HostHousehold> household)
        : backend_(backend), household_(std::move(household)) {}
    KeptSession(const KeptSession&) = delete;
    KeptSession& operator=(const KeptSession&) = delete;
    ~KeptSession() override { backend_.give_back(std::move(household_)); }
    BlockOutcome run(const BlockRequest& request) override { return household_->run(0, request); }

   private:
    HostBackend& backend_;
    std::shared_ptr<HostHousehold> household_;
  };

  std::unique_ptr<Session> keep(std::shared_ptr<HostHousehold> household) {
    return std::make_unique<KeptSession>(*this, std::move(household));
  }

  std::shared_ptr<HostHousehold> take_kept(const Candidate& candidate, const HostWorkload& workload) {
    std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(kept_, [&](const auto& kept) {
      return kept->program().candidate.digest == candidate.digest &&
             kept->program().workloads.front().get() == &workload;
    });
    if (found == kept_.end()) return nullptr;
    auto household = std::move(*found);
    kept_.erase(found);
    return household;
  }

  /// While candidates are verified, so that those which are timed next meet another process of
  /// their anchor: what one process's allocations do to it would bias all of them alike.
  void renew_kept(const TaskSpec& task) {
    std::lock_guard lock(mutex_);
    std::erase_if(kept_, [&](const auto& kept) {
      const HostWorkload& workload = *kept->program().workloads.front();
      return workload.task.spec->digest == task.digest && !kept->renew().ok();
    });
  }

  void give_back(std::shared_ptr<HostHousehold> household) {
    std::vector<std::shared_ptr<HostHousehold>> leave;  // without the lock
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<HostHousehold>> stay;
    kept_.push_back(std::move(household));
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const bool recent = i + kMostKept >= kept_.size();
      const bool wanted = kept_[i]->program().workloads.front().use_count() > 1;
      (recent && wanted && kept_[i]->works() ? stay : leave).push_back(std::move(kept_[i]));
    }
    kept_ = std::move(stay);
  }

  /// A candidate on its way through the processes that build it.
  struct Building {
    const Candidate& candidate;
    std::vector<Section> sections;
    const CancelToken& cancel;
    Zygote::Rooms rooms = {};
    Extensions extensions = {};
    BuildFacts facts = {};
    std::optional<BuildResult> refused = {};
    std::optional<Error> broken = {};
  };

  Result<ChildReply> run_build(Building& building) {
    auto reply = [&] {
      const BuildPlaces::Held place = build_places_.take_one(building.cancel);
      wait_for_silence(building.cancel);
      return run_build_step('s', building);
    }();
    // Another candidate may have taken the GPU's memory: that is not this one's fault.
    const bool full =
        reply.ok() && !building.refused && (!reply->confined || reply->exited_with(kExitMemory));
    if (!full || !options_.gpu) return reply;
    const BuildPlaces::Held alone = build_places_.take_all(building.cancel);
    return run_build_step('s', building);
  }

  /// A context that is made beside timed blocks disturbs them. Nobody need wait for long: stages
  /// that time take turns with others.
  void wait_for_silence(const CancelToken& cancel) const {
    if (!options_.gpu) return;
    const std::int64_t begin_ns = steady_clock().now_ns();
    while (seconds_since(session_.last_timed_ns->load()) < kSilenceSeconds &&
           seconds_since(begin_ns) < kLongestSilenceWait && !cancel.cancelled())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  Result<ChildReply> run_build_step(char step, Building& building) {
    if (building.cancel.cancelled()) return Error{ErrorCode::kCancelled, "a build was cancelled"};
    const Candidate& candidate = building.candidate;
    nlohmann::json document =
        describe_program({candidate.text, candidate.host_program().entry}, building.sections);
    document["cpus"] = session_.broker_cpus;  // what is timed meanwhile is left alone
    document["extensions"] = building.extensions.requests;
    LATHE_TRY(auto zygote, candidates_.take());
    const Status loaded =
        zygote->load(document.dump(), building.rooms, building.sections, building.extensions);
    const auto compile = [&](const std::string& request) { return compile_for(building, request); };
    auto reply = loaded.ok()
                     ? zygote->run_step(step, building.rooms, import_seconds(), building.cancel, compile)
                     : Result<ChildReply>(loaded.error());
    if (building.broken) return *building.broken;
    if (!reply.ok()) zygote.drop();
    return reply;
  }

  /// What a building process waits for; invalid where its candidate is refused or the machine
  /// failed.
  UniqueFd compile_for(Building& building, const std::string& request) {
    if (building.extensions.requests.size() >= kMostExtensions) {
      building.refused = refusal("bad_extension", fmt::format("more than {} extensions", kMostExtensions));
      return {};
    }
    auto made = extensions_.build(request, building.cancel);
    if (!made.ok()) return building.broken = made.error(), UniqueFd();
    building.facts.seconds += made->seconds;
    building.facts.log += made->log;
    if (!made->ok) {
      building.refused = refusal(made->reason, made->log);
      building.refused->facts.seconds = building.facts.seconds;
      return {};
    }
    auto object = make_sealed_memfd("extension", made->object);
    if (!object.ok()) return building.broken = object.error(), UniqueFd();
    building.facts.code_bytes += static_cast<std::int64_t>(made->object.size());
    building.extensions.requests.push_back(request);
    building.extensions.objects.push_back(std::move(made->object));
    return *std::move(object);
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
  const std::shared_ptr<ProcessTally> tally_ = std::make_shared<ProcessTally>();
  ZygotePool candidates_, baselines_;
  ReferenceRoom references_;
  BuildPlaces build_places_;
  ExtensionBuilder extensions_;
  std::mutex mutex_;
  DevicePeaks peaks_;
  std::vector<std::shared_ptr<HostHousehold>> kept_;  ///< the longest unused first
};

}  // namespace

Result<std::unique_ptr<Backend>> make_host_backend(const HostBackendOptions& options) {
  if (options.threads < 1) return invalid(fmt::format("{} threads", options.threads), "use at least one");
  LATHE_TRY(HostParts parts, find_parts(options));
  const std::vector<int> processors = usable_processors();
  // A GPU's timed process, its zygote, the broker and the driver's threads take turns on them.
  const int timed = options.gpu ? std::max(kCoresBesideGpu, options.threads) : options.threads;
  auto backend = std::make_unique<HostBackend>(options, std::move(parts),
                                               choose_timing_cores(processors, cores_of(processors), timed));
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
