#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"

namespace lathe::rl {

/// What a task's graph is, in the order in which CUDA-L2 learned: general operations, chains of
/// them to be fused, products of matrices (convolutions and attention among them).
enum class TaskKind : std::uint8_t { kOperation, kChain, kProduct };
std::string_view name(TaskKind kind);  ///< "operation", ...

/// Of a graph's operations by their names, "bias_add+matmul+relu". A task without a graph is of the
/// last kind.
TaskKind kind_of(std::string_view composition);

/// Answers of which something is known, and how many of them passed.
struct Passes {
  std::int64_t known = 0;
  std::int64_t passed = 0;

  bool operator==(const Passes&) const = default;
};

struct CurriculumOptions {
  std::int64_t window = 8;  ///< the latest steps, of a task or of a stage, that a pass rate is of
  double floor = 0.05;      ///< the least weight of a task; the most is 1
  double threshold = 0.8;   ///< the pass rate above which a stage ends
};

/// What a curriculum has seen so far.
struct CurriculumState {
  std::map<std::size_t, std::deque<Passes>> tasks = {};  ///< of each task the latest steps that drew it
  TaskKind stage = TaskKind::kOperation;
  std::deque<Passes> stage_steps = {};  ///< the latest of the stage

  bool operator==(const CurriculumState&) const = default;
};

/// A task that a run trains on.
struct CurriculumTask {
  std::size_t task = 0;  ///< its number in the gym
  TaskKind kind = TaskKind::kOperation;
};

/// How often each task is to be drawn, from 0 to 1; some weight is above 0. Pure.
using CurriculumFunction = std::vector<double> (*)(std::span<const CurriculumTask> tasks,
                                                   const CurriculumState& state,
                                                   const CurriculumOptions& options);
struct Curriculum {
  std::string_view name;
  std::string_view rule;
  CurriculumFunction function = nullptr;
};

/// All of them, by name: pass_rate, stages, uniform.
std::span<const Curriculum> curricula();

/// Errors: kInvalid; the hint names all that there are.
Result<Curriculum> find_curriculum(std::string_view name);

/// `count` of the tasks by their weights: none twice before all whose weight is above 0 were drawn
/// once.
std::vector<CurriculumTask> draw_by_weight(std::span<const CurriculumTask> tasks,
                                           std::span<const double> weights, std::size_t count, Rng& rng);

/// The state after a step with these answers of tasks. The stage is over once its `window` latest
/// steps together have passed more often than `threshold`; stages without tasks are passed over,
/// and the last one has no end. Pure.
CurriculumState after_step(CurriculumState state, const std::map<std::size_t, Passes>& step,
                           std::span<const CurriculumTask> tasks, const CurriculumOptions& options);

nlohmann::json to_json(const CurriculumState& state);
/// Throws nlohmann::json::exception.
CurriculumState curriculum_from(const nlohmann::json& json);

}  // namespace lathe::rl
