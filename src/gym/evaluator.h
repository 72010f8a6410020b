#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/events.h"
#include "baseline/baseline.h"

namespace lathe {

struct EvaluatorOptions {
  Seed secret =
      Seed::from_system();  ///< draws hidden shapes, inputs and checked places; never stored or shown
  int build_workers = 0;    ///< 0: as many as the machine allows
  int hidden_shapes = 3;
  bool inspect_code = false;  ///< at every depth, not only final and profile
  double build_timeout_seconds = 30;
  double block_timeout_seconds = 20;
  /// Kernels of Lathe's own, never a policy's, that screens are timed against where every peer is far slower:
  /// a slow opponent costs time. No speedup is reported over them, and a final never meets them.
  std::vector<Candidate> anchors = {};
  CancelToken cancel = {};  ///< ends everything as Evaluator::cancel() does, create() too
};

struct EvaluationRequest {
  Candidate candidate;
  Depth depth = Depth::kScreen;
  std::int64_t tag = 0;  ///< returned with the verdict
};

struct Evaluated {
  std::int64_t tag = 0;
  Candidate candidate;
  Verdict verdict;
};

/// The time of one verified peer at each scored shape.
struct BaselineTime {
  std::string name;
  double median_ns = 0;  ///< geometric mean over the scored shapes
  std::vector<Timing> timings;
};

/// The gym for one task on one backend: submit many candidates, take verdicts as they finish. A candidate
/// that dies, hangs, forks or floods costs only its own verdict. Builds run on workers, timing on one device
/// lane. All members are thread-safe.
class Evaluator {
 public:
  /// Prepares workloads and times the baselines (seconds). Errors: the task cannot be bound, or no baseline
  /// passes; kCancelled.
  static Result<std::unique_ptr<Evaluator>> create(const TaskSpec& task, Backend& backend,
                                                   const EvaluatorOptions& options, EventSink& events);
  virtual ~Evaluator() = default;

  virtual void submit(EvaluationRequest request) = 0;
  /// The next finished evaluation; blocks. nullopt when nothing is in flight, or when all that had finished
  /// before cancel() was taken.
  virtual std::optional<Evaluated> next() = 0;
  virtual int in_flight() const = 0;
  /// Stops waiting work; what runs, compilers too, is killed within a fraction of a second and gives no
  /// verdict. For good, idempotent.
  virtual void cancel() = 0;

  virtual const std::vector<BaselineTime>& baselines() const = 0;
  /// The fastest baseline's name: speedup over it is what optimize maximises.
  virtual const std::string& best_baseline() const = 0;
};

}  // namespace lathe
