#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/device_lane.h"
#include "base/cancel.h"
#include "base/fd.h"
#include "candidate/candidate.h"
#include "candidate/dialect.h"
#include "record/verdict.h"
#include "task/compare.h"
#include "task/generate_inputs.h"
#include "task/products.h"
#include "task/reference.h"

namespace lathe {

struct DeviceInfo {
  std::string kind;  ///< "cpu", "cuda", "host:cpu", "fake"
  Dialect dialect = Dialect::kCpu;
  std::string name;
  std::string uuid = {};      ///< of the device, or of the machine whose processor it is
  std::string driver = {};    ///< its version; empty where there is none
  std::string compiler = {};  ///< name and version
  std::string jail = "full";  ///< the JailKind of candidates' processes
  std::string digest_text;    ///< compiler, target and driver: part of every artefact's key
  int threads = 1;            ///< that a candidate may use
  int cores = 1;
  int lanes = 1;  ///< evaluations that are worth having under way at once
  /// Under way at once where whole stages take turns: those that wait to be timed are, one by one,
  /// then others are verified side by side.
  int evaluations = 1;
  bool quiet_compiles = false;  ///< compiles may run beside a timing
  bool steady = false;          ///< blocks of one kernel differ by a percent: no pair needs two of each
  /// Standard deviation of the log ratio of two kernels' times between pairs of processes: what one
  /// process cannot tell, however long it is looked at.
  double process_spread = 0;
  std::int64_t memory_bytes = 0;  ///< of the device's own; 0: it computes in the host's
  double best_over_naive = 12;    ///< how much faster than the naive build a kernel may be: sizes workloads
  /// A candidate's process lives for many blocks, and it may find memory that the backend does not
  /// clear.
  bool runners_remember = false;
  /// Blocks are dealt trials until none is left, before one comes again.
  bool deals_trials = false;
  /// A host program is built at each shape, for it compiles what a call there needs.
  bool builds_every_shape = false;
  /// Starting a process is dear: sessions that are opened together may share theirs.
  bool shapes_share_processes = false;
  /// "DEV": a trusted host launches what candidates bring; "HOST": they bring the host code too.
  std::string tier = "DEV";
  std::vector<std::string> unchecked = {};  ///< by name, what this tier cannot check; in every verdict
  double least_block_ns = 0;                ///< shorter blocks are not worth timing
  Dims facts;  ///< for plan expressions: threads, l1_bytes, l2_bytes, l3_bytes, vector_bytes
};

/// Measured limits of the device, from which the roofline floor follows.
struct DevicePeaks {
  double flops_per_second = 0;  ///< fp32 fused multiply-adds counted twice
  struct Level {
    std::string name;
    double capacity_bytes = 0;
    double bytes_per_second = 0;
  };
  std::vector<Level> levels;  ///< fastest first; the last is main memory
  /// Of tensor cores on operands of 16 bits, from the architecture and the clock; 0 where there are
  /// none.
  double tensor_flops_per_second = 0;

  /// What no kernel of the task exceeds. Of numbers of 16 bits an instruction multiplies twice as
  /// many, of bytes four times; where 16 bits do not hold the values, three products of tensor
  /// cores stand for one.
  double flops_limit(const TaskSpec& task) const;

  /// Seconds below which no kernel can move `bytes`: each level may hold as many of them as fit,
  /// fastest first.
  double memory_floor_seconds(double bytes) const;
  /// The least time of a call, by bytes and by arithmetic; 0 where no peak is known.
  double floor_ns(const BoundTask& task) const;
  /// The higher of both, figure by figure; levels must agree.
  DevicePeaks best_of(const DevicePeaks& other) const;
};

/// What a build gave: an artefact, or the candidate's fault (facts.log says which).
struct BuildResult {
  bool ok = false;
  std::string reason =
      {};  ///< "compile_error", "forbidden_symbol", "constructor", "timeout", ... when not ok
  Outcome outcome = Outcome::kBuildFailed;
  Artifact artifact = {};
  BuildFacts facts = {};
};

/// What a backend that runs plans alone says of a host program: BUILD_FAILED, "host_program".
BuildResult refuse_host_program(const Candidate& candidate);

/// Builds a plan's kernels for a shape: `compile` is given the text with its constants. A plan of
/// library steps alone has nothing to compile, and a host program is refused.
Result<BuildResult> build_plan(const Candidate& candidate, const BoundTask& task,
                               const std::function<Result<BuildResult>(const std::string& text)>& compile);

/// One call's inputs and what its outputs must be.
struct Trial {
  Distribution distribution = Distribution::kNormal;
  std::vector<HostTensor> inputs;
  std::vector<Expected> expected;
};

/// RMS limits of a workload's trials, [trial][output].
using RmsLimits = std::vector<std::vector<RmsLimit>>;

/// What is held in memory, in bytes.
struct MemoryUse {
  std::int64_t host = 0;
  std::int64_t device = 0;  ///< in the device's own memory

  MemoryUse& operator+=(const MemoryUse& other) {
    host += other.host;
    device += other.device;
    return *this;
  }
  MemoryUse& operator-=(const MemoryUse& other) {
    host -= other.host;
    device -= other.device;
    return *this;
  }
};

/// A task at one shape with its trials: made once, shared by all candidates, never seen by one
/// before its call. A backend subclasses it to keep device copies.
struct Workload {
  BoundTask task;
  std::vector<Trial> trials;
  bool timed = false;  ///< blocks of it are timed: a trial's memory tells nothing of another's
  int guest = -1;  ///< the trial that no timed block draws, at a secret place: see time_quickly(); -1: none
  std::size_t timed_trials() const { return trials.size() - (guest >= 0 ? 1 : 0); }
  virtual ~Workload() = default;
  /// Of the trials and what a backend keeps beside them.
  virtual MemoryUse memory() const;

 protected:
  /// Moves the trials' inputs to a memfd: the i-th of trial t to t * `stride` + `offsets[i]`.
  Status move_inputs(const UniqueFd& memory, std::uint64_t stride, std::span<const std::uint64_t> offsets);
};

enum class BlockStatus { kOk, kCrash, kTimeout, kTampered, kInfra };

/// One uninterrupted series of calls in a process that has met none of its trials before.
struct BlockRequest {
  std::vector<int> trials;     ///< indices into the workload, in call order; no index twice
  double check_fraction = 1;   ///< share of each output compared, at secret places; 1 for all
  std::uint8_t poison = 0xff;  ///< byte pattern of outputs and scratch before the block
  double timeout_seconds = 10;
  std::uint64_t secret = 0;        ///< draws the places checked
  const RmsLimits* rms = nullptr;  ///< checked where given, when everything is compared
  bool measure_rms = false;        ///< fill BlockOutcome::rms: for the naive build
  bool timed = false;              ///< its wall_ns matters: nobody else computes on the device meanwhile
  CancelToken cancel = {};         ///< once raised, the block is killed: kInfra, "cancelled"
  std::atomic<std::int64_t>* waited_ns = nullptr;  ///< is told for how long others had the device
};

struct BlockOutcome {
  BlockStatus status = BlockStatus::kInfra;
  std::string reason =
      {};  ///< stable code when not kOk: "segfault", "input_written", "oob_write", "late_write"
  std::string detail = {};
  double wall_ns = 0;      ///< for all calls, by the broker's clock, less the empty block
  bool disturbed = false;  ///< the machine kept the calls waiting: the block's time says little
  double own_ns = 0;       ///< for all calls, as their process says, which could lie; 0 if it doesn't
  double clock_mhz = 0;    ///< of the device at the block's end; 0 where unknown
  std::vector<std::vector<Comparison>> outputs = {};  ///< [trial][output]
  RmsLimits rms = {};                                 ///< [trial of the block][output], where asked for
};

/// What a profile is made of: the calls of a block, counted, then repeated for their energy.
struct ProfileRequest {
  std::vector<int> trials;
  double energy_seconds = 2;
  CancelToken cancel = {};
};

/// One call's counters by the names of docs/cuda.md, and why others are missing.
struct CallProfile {
  std::map<std::string, double> counters = {};
  std::vector<std::string> notes = {};
};

/// The places of a trial's outputs that a block compares, where its fraction is below 1.
TileChoice choice_of(const BlockRequest& request, int trial);

/// Compares the outputs of one of a block's trials as its request asks, and adds to `outcome`.
void check_trial(const Workload& workload, const BlockRequest& request, int trial,
                 std::span<const std::span<const std::byte>> outputs, BlockOutcome& outcome);

/// A candidate loaded for one workload, behind a jail. Not thread-safe.
class Session {
 public:
  virtual ~Session() = default;
  /// Runs one block. A dead candidate leaves the session usable: the next block starts afresh.
  virtual BlockOutcome run(const BlockRequest& request) = 0;
  /// What the first timed block needs may be started, short of what the candidate does: beside work
  /// of others, and while nobody is timed. May be left out.
  virtual void get_ready() {}
  /// The last thing to ask of a session of a fresh runner. What it says is information only: the
  /// candidate shares its process.
  virtual CallProfile profile(const ProfileRequest&) {
    return {{}, {"this device has no counters: a profile is what depth final says"}};
  }
};

/// Which process runs a session, where processes live for many blocks.
struct Runner {
  static constexpr int kFresh = -1;   ///< one that has run nothing
  static constexpr int kShared = -2;  ///< one that has run nothing but the gym's own baselines
  int process = 0;                    ///< else of the candidate's own, which run nothing but it, by number
  std::uint64_t evaluation = 0;       ///< of the candidate: what another one's have met is withheld in it
};

/// What the device has been doing for blocks since the backend was made.
struct DeviceUsage {
  double busy_seconds = 0;  ///< of all blocks' calls, by the broker's clock
  std::int64_t blocks = 0;
  struct Stage {
    double seconds = 0;
    std::int64_t count = 0;
  };
  std::map<std::string, Stage> stages = {};  ///< of the broker: "open", "reset", "ready", "check", ...
};

/// A kind of device. Everything above gym/ and gym/ itself know only this interface.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const DeviceInfo& device() const = 0;
  /// Measured on the first call (a second), unless set before.
  virtual Result<DevicePeaks> peaks() = 0;
  virtual void set_peaks(const DevicePeaks&) {}
  /// Measures again and keeps the best of each: a busy machine makes peaks look low, never high.
  virtual Result<DevicePeaks> remeasure_peaks() { return peaks(); }

  virtual DeviceUsage usage() const { return {}; }
  /// Who may compute on the device, and who may time.
  virtual DeviceLane& lane() = 0;
  /// A lease of lane().
  virtual DeviceLane::Lease lease(DeviceLane::Use use, DeviceLane::Grain grain) {
    return lane().take(use, grain);
  }
  /// The candidate's evaluation has ended, and none of its sessions is open: what was kept for it
  /// may go. Does not wait.
  virtual void on_idle(const Candidate& /*last*/) {}
  /// What the device said of itself between two steady_clock() times: "clock_mhz", "power_w", ...;
  /// empty where it says nothing. Thread-safe.
  virtual std::map<std::string, double> device_state(std::int64_t /*begin_ns*/,
                                                     std::int64_t /*end_ns*/) const {
    return {};
  }

  /// Whether the candidate's `requires` admits the shape on this device. A plan that cannot be
  /// evaluated counts as covering it: opening it says what is wrong.
  virtual bool covers(const Candidate& candidate, const BoundTask& task) const;

  /// Compiles in a jail. Thread-safe. An Error is the machine's fault (INFRA), never the
  /// candidate's; kCancelled once `cancel` is raised: the compiler is killed.
  virtual Result<BuildResult> build(const Candidate& candidate, const BoundTask& task,
                                    const CancelToken& cancel) = 0;
  Result<BuildResult> build(const Candidate& candidate, const BoundTask& task) {
    return build(candidate, task, {});
  }
  /// A host program at all of these shapes, where the device builds every shape: one artefact.
  virtual Result<BuildResult> build_together(const Candidate& candidate,
                                             std::span<const BoundTask* const> tasks,
                                             const CancelToken& cancel) {
    return build(candidate, *tasks.front(), cancel);
  }
  /// What the machine code of an artefact consists of, as names and numbers for BuildFacts. Slow
  /// beside a build. kUnavailable where there is no disassembler. Thread-safe.
  virtual Result<std::map<std::string, double>> inspect(const Artifact&) {
    return std::map<std::string, double>{};
  }
  /// Computes references' large products, beside no candidate; nullptr where the host's processors
  /// must do.
  virtual ProductEngine* products() { return nullptr; }
  /// The task's reference, which must not outlive the backend. A process reference runs in workers
  /// of the backend's own: kUnavailable where it has none.
  virtual Result<std::unique_ptr<Reference>> make_reference(const TaskSpec& spec) {
    return lathe::make_reference(spec, products());
  }
  /// Takes ownership of trials, uploads if the device needs it. Thread-safe.
  virtual Result<std::shared_ptr<const Workload>> prepare(Workload workload) = 0;
  /// Loads an artefact in a runner. Errors with kInvalid are the candidate's fault, others INFRA.
  virtual Result<std::unique_ptr<Session>> open(const Candidate& candidate, const Artifact& artifact,
                                                std::shared_ptr<const Workload> workload, Runner runner) = 0;
  Result<std::unique_ptr<Session>> open(const Candidate& candidate, const Artifact& artifact,
                                        std::shared_ptr<const Workload> workload) {
    return open(candidate, artifact, std::move(workload), Runner{});
  }
  struct Opening {
    const Artifact* artifact = nullptr;
    std::shared_ptr<const Workload> workload;
  };
  /// One candidate at several shapes, of which the first is met first by every process. Of these
  /// sessions one runs at a time.
  virtual Result<std::vector<std::unique_ptr<Session>>> open_together(const Candidate& candidate,
                                                                      std::span<const Opening> openings,
                                                                      Runner runner);
};

}  // namespace lathe
