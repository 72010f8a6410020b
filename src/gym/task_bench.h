#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "baseline/baseline.h"
#include "gym/evaluator.h"
#include "gym/quiet_gate.h"
#include "gym/shape_timing.h"

namespace lathe {

/// A task made ready for evaluation on one backend: shapes, secret inputs, references, verified and timed
/// baselines. Synchronous; the Evaluator puts queues and workers around it. evaluate() is for one thread.
class TaskBench {
 public:
  static Result<std::unique_ptr<TaskBench>> create(const TaskSpec& task, Backend& backend,
                                                   const EvaluatorOptions& options, EventSink& events);

  std::span<const BenchShape> shapes() const { return shapes_; }
  /// Verifies, then times to the depth asked for while it holds the gate. Fills everything of the verdict but
  /// queue and build seconds.
  Verdict evaluate(const BuiltCandidate& built, Depth depth, QuietGate& gate);

  const std::vector<BaselineTime>& baselines() const { return baselines_; }
  const std::string& best_baseline() const { return best_baseline_; }

 private:
  TaskBench(const TaskSpec& task, Backend& backend, const EvaluatorOptions& options)
      : spec_(task), backend_(backend), options_(options) {}

  // task_preparation.cpp
  Status make_shapes();
  Status add_shape(const Dims& dims, bool hidden, const Seed& seed);
  Status make_timing_data(const BuiltCandidate& naive);
  Status add_baselines(EventSink& events);
  std::vector<BuiltCandidate> build_all(const std::vector<Baseline>& baselines);
  /// Verifies it, then ties it to the naive build, which comes first.
  Finding add_baseline(const std::string& name, bool peer, const BuiltCandidate& built);
  void summarise_baselines();
  void report_preparation(EventSink& events) const;

  std::vector<Dims> draw_shapes(const Seed& seed) const;
  Status measure_rms(const Artifact& naive, BenchShape& shape);
  Finding verify(const BuiltCandidate& built, Evidence& evidence);
  void inspect(const BuiltCandidate& built, Verdict& verdict);
  Finding time(const BuiltCandidate& built, Depth depth, Verdict& verdict);
  void profile(const BuiltCandidate& built, Verdict& verdict);
  Finding reverify(const BuiltCandidate& built, Evidence& evidence, bool scored_too);
  bool covers(const Candidate& candidate, const BenchShape& shape) const;

  TaskSpec spec_;
  Backend& backend_;
  EvaluatorOptions options_;
  std::unique_ptr<Reference> reference_;
  Candidate naive_;
  std::vector<BenchShape> shapes_;                   ///< scored, then hidden
  std::vector<std::unique_ptr<ShapeTimer>> timers_;  ///< one a scored shape
  std::vector<BaselineTime> baselines_;
  std::string best_baseline_;
  std::map<std::string, double> preparation_;  ///< seconds of each of its parts
  std::uint64_t reverified_ = 0;
  std::uint64_t evaluated_ = 0;
};

}  // namespace lathe
