#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "baseline/baseline.h"
#include "gym/gym.h"
#include "gym/shape_timing.h"

namespace lathe {

struct TaskBenchOptions {
  Seed secret;
  int hidden_shapes = 3;
  bool inspect_code = false;
  double block_timeout_seconds = 20;
  std::vector<Candidate> anchors = {};  ///< see GymOptions::anchors
};

/// A task made ready for evaluation on one backend: shapes, secret inputs, references, verified and
/// timed baselines. Immutable once made, so that several threads may evaluate on it.
class TaskBench {
 public:
  /// Seconds of work; `cancel` ends it soon.
  static Result<std::unique_ptr<TaskBench>> create(std::shared_ptr<const TaskSpec> task, Backend& backend,
                                                   const TaskBenchOptions& options, const CancelToken& cancel,
                                                   EventSink& events);

  std::span<const BenchShape> shapes() const { return shapes_; }
  /// Verifies, then times to the depth asked for. Fills everything of the verdict but queue and
  /// build seconds. The work ends soon after the token is raised; its verdict is void then.
  /// Thread-safe.
  /// `waited_ns` is told for how long its blocks waited for other evaluations'.
  Verdict evaluate(const BuiltCandidate& built, Depth depth, Backend& backend, const CancelToken& cancel,
                   std::atomic<std::int64_t>* waited_ns = nullptr) const;

  const TaskBaselines& baselines() const { return baselines_; }
  /// Inputs, outputs and references.
  MemoryUse memory() const;

 private:
  /// What one evaluation, or the preparation, works with: all of it ends soon after its token is
  /// raised.
  struct Scope {
    Backend& backend;
    const Reference& reference;
    const CancelToken& cancel;
  };

  struct BuiltBaseline {
    std::string name;
    bool peer = true;  ///< as Anchor::peer
    BuiltCandidate built;
  };

  /// The options' anchors at every scored shape, made when a screen first asks for them.
  struct StandIns {
    std::mutex making;
    std::atomic<bool> made = false;  ///< from then on `anchors` never changes
    std::vector<std::vector<Anchor>> anchors;
  };

  /// A scored shape with what it is timed on, which is drawn anew every so often: every verdict
  /// says a bit of which elements of a large output are known.
  struct TimedShape {
    std::mutex mutex;
    std::shared_ptr<const BenchShape> drawn;
    int served = 0;           ///< timings since
    std::uint64_t draws = 0;  ///< so far
  };

  TaskBench(std::shared_ptr<const TaskSpec> task, const TaskBenchOptions& options, EventSink& events)
      : spec_(std::move(task)), options_(options), events_(events) {}

  // task_preparation.cpp
  /// The gym's own, the naive build first.
  Result<std::vector<BuiltBaseline>> list_baselines(const Scope& scope) const;
  Status bind_shapes();
  Status make_data_and_build(const Scope& scope, std::vector<BuiltBaseline>& baselines);
  Status make_data(const Scope& scope);
  void build_all(const Scope& scope, std::vector<BuiltBaseline>& baselines) const;
  /// The naive build's own errors, and timing data where its size depends on how fast the naive
  /// build is.
  Status measure_naive(const Scope& scope, const BuiltCandidate& naive);
  Status measure_naive_timing(const Scope& scope, const BuiltCandidate& naive, std::size_t shape);
  Status make_timing_data(const Scope& scope, std::size_t shape, int trials);
  /// From shapes_ to timed_shapes_, where they can be replaced.
  void hand_over_timing_data();
  Status tie_all(const Scope& scope, const std::vector<BuiltBaseline>& baselines);
  /// Verifies a baseline and ties it to the naive build at every scored shape.
  Finding verify_and_tie(const Scope& scope, const BuiltBaseline& baseline, std::vector<Anchor>& tied) const;
  Finding verify_baseline(const Scope& scope, const BuiltBaseline& baseline) const;
  /// The naive build is tied first.
  Finding tie(const Scope& scope, const BuiltBaseline& baseline, std::vector<Anchor>& tied) const;
  void report_dropped(const std::string& baseline, const Finding& finding) const;
  void summarise_baselines();
  /// Of a scored shape; nullopt: they are yet to be made.
  std::optional<std::span<const Anchor>> made_stand_ins(std::size_t shape) const;
  /// The same. Makes them first, within the caller's lease; none while another evaluation does.
  std::span<const Anchor> stand_ins(const Scope& scope, std::size_t shape) const;
  void make_stand_ins(const Scope& scope) const;

  struct HiddenShape {
    Dims dims;
    bool large = false;
    Coverage coverage = Coverage::kEverything;
    bool small = false;
  };
  /// The task with the part of its domain that the candidate's `requires` leaves on a device of
  /// these facts.
  TaskSpec domain_of(const Candidate& candidate, const Dims& facts) const;
  std::vector<HiddenShape> draw_hidden(const Seed& seed, const TaskSpec& domain) const;
  /// What one process after another meets: small shapes share them where processes are dear.
  static std::vector<std::vector<std::size_t>> share_out(const std::vector<HiddenShape>& drawn,
                                                         const DeviceInfo& device);
  /// A shape that was drawn for one candidate, with what it found there.
  struct Fresh {
    const HiddenShape& drawn;
    Seed seed;
    Finding& finding;
    Evidence& evidence;
    BenchShape shape = {};
    BuiltCandidate built = {};
  };
  /// Its data and the candidate built for it; without artefacts where the candidate does not cover
  /// it.
  Finding make_fresh(const Scope& scope, const BuiltCandidate& built, Fresh& fresh) const;
  /// In a process for all of them where the device has that, until one fails.
  void verify_together(const Scope& scope, const BuiltCandidate& built, std::span<Fresh> shapes) const;
  /// At shapes that were drawn for this candidate, each made and built for now.
  Finding verify_drawn(const Scope& scope, const BuiltCandidate& built, const std::vector<HiddenShape>& drawn,
                       const Seed& seed, Evidence& evidence) const;
  TimingSite site(const Scope& scope, const BenchShape& shape) const {
    return {scope.backend, scope.reference, shape, options_.block_timeout_seconds};
  }
  /// Of a scored shape: what it is timed on now.
  std::shared_ptr<const BenchShape> timed_shape(std::size_t shape) const;
  /// The same for an evaluation's timing, within its lease; drawn anew where it is due.
  std::shared_ptr<const BenchShape> serve_timed_shape(const Scope& scope, std::size_t shape) const;
  Result<std::shared_ptr<const BenchShape>> draw_again(const Scope& scope, std::size_t shape,
                                                       const BenchShape& now, const Seed& seed) const;
  /// The workload to verify on; of a large shape one that is known in part.
  Status make_verify_data(const Scope& scope, const Seed& seed, Coverage coverage, BenchShape& shape) const;
  /// In the session if there is one.
  Status measure_rms(const Scope& scope, const Artifact& naive, BenchShape& shape,
                     std::unique_ptr<Session> session = nullptr) const;
  bool is_baseline(const Candidate& candidate) const;
  /// Where processes are dear: sessions of the first scored shape and all hidden ones, of which
  /// each process meets the scored one first, for only then it may be one that is timed; null at
  /// the other scored ones.
  Result<std::vector<std::unique_ptr<Session>>> open_sharing(const Scope& scope, const BuiltCandidate& built,
                                                             Runner runner) const;
  Finding verify(const Scope& scope, const BuiltCandidate& built, Runner runner, const Seed& secret,
                 Evidence& evidence) const;
  void inspect(const Scope& scope, const BuiltCandidate& built, Verdict& verdict) const;
  /// A session at a scored shape that gets ready while the candidate is verified.
  struct Readied {
    std::shared_ptr<const BenchShape> shape;
    std::unique_ptr<Session> session;
  };
  /// [scored shape]; nothing where no process is dear.
  std::vector<Readied> get_ready(const Scope& scope, const BuiltCandidate& built, Depth depth) const;
  /// kSuspect where all timed well and one is too fast for the textbook.
  Finding time(const Scope& scope, const BuiltCandidate& built, const Seed& secret,
               std::vector<Readied> readied, Verdict& verdict) const;
  /// The stages that the verdict's depth asks for.
  Finding judge(const Scope& scope, const BuiltCandidate& built, const Seed& secret, Verdict& verdict) const;
  /// Whether the naive build runs: a machine that fails with one candidate and not with it is
  /// healthy.
  bool control_runs(const Scope& scope, const Seed& secret) const;
  void profile(const Scope& scope, const BuiltCandidate& built, Verdict& verdict) const;
  /// Of a timed candidate, suspect or final. What is suspect stays so at a screen.
  Finding confirm(const Scope& scope, const BuiltCandidate& built, const Seed& seed, const Finding& timed,
                  Verdict& verdict) const;
  /// On new hidden shapes and, where the time is `suspicious`, on new inputs of the scored ones;
  /// else on those that their verification left out.
  Finding reverify(const Scope& scope, const BuiltCandidate& built, const Seed& seed, Evidence& evidence,
                   bool suspicious) const;

  std::shared_ptr<const TaskSpec> spec_;
  TaskBenchOptions options_;
  EventSink& events_;
  std::unique_ptr<Reference> reference_;
  Candidate naive_;
  std::vector<BenchShape> shapes_;                         ///< scored, then hidden
  std::vector<std::unique_ptr<TimedShape>> timed_shapes_;  ///< scored, with their timing data
  std::vector<std::vector<Anchor>> anchors_;               ///< [scored shape]; the naive build comes first
  TaskBaselines baselines_;
  mutable StandIns stand_ins_;
  mutable std::atomic<std::uint64_t> evaluations_ = 0;  ///< each has secrets of its own
};

}  // namespace lathe
