#include "rl/curriculum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/named.h"
#include "record/json_integer.h"
#include "task/op.h"

namespace lathe::rl {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 3> kKinds = {"operation", "chain", "product"};

bool is_product(std::string_view operation) {
  const Op* const op = find_op(operation);
  if (op == nullptr) return false;
  const OpClass kind = op->op_class();
  return kind == OpClass::kContraction || (kind == OpClass::kStencil && op->min_inputs() > 1) ||
         operation == "attention";
}

Passes sum_of(const std::deque<Passes>& steps) {
  Passes sum;
  for (const auto& [known, passed] : steps) sum.known += known, sum.passed += passed;
  return sum;
}

void remember(std::deque<Passes>& steps, const Passes& step, const CurriculumOptions& options) {
  steps.push_back(step);
  if (std::cmp_greater(steps.size(), options.window)) steps.pop_front();
}

/// The first kind from `kind` on of which there is a task; the last where there is none.
TaskKind first_from(TaskKind kind, std::span<const CurriculumTask> tasks) {
  TaskKind first = TaskKind::kProduct;
  for (const CurriculumTask& task : tasks)
    if (task.kind >= kind) first = std::min(first, task.kind);
  return first;
}

std::vector<double> uniform(std::span<const CurriculumTask> tasks, const CurriculumState&,
                            const CurriculumOptions&) {
  return std::vector<double>(tasks.size(), 1);
}

/// p by Laplace's rule, which is 1/2 where nothing is known.
std::vector<double> pass_rate(std::span<const CurriculumTask> tasks, const CurriculumState& state,
                              const CurriculumOptions& options) {
  std::vector<double> weights;
  for (const auto& [task, kind] : tasks) {
    const auto seen = state.tasks.find(task);
    const auto [known, passed] = seen == state.tasks.end() ? Passes() : sum_of(seen->second);
    const double p = static_cast<double>(passed + 1) / static_cast<double>(known + 2);
    weights.push_back(std::max(options.floor, 4 * p * (1 - p)));
  }
  return weights;
}

std::vector<double> stages(std::span<const CurriculumTask> tasks, const CurriculumState& state,
                           const CurriculumOptions&) {
  const TaskKind stage = first_from(state.stage, tasks);
  std::vector<double> weights;
  for (const CurriculumTask& task : tasks) weights.push_back(task.kind == stage ? 1 : 0);
  return weights;
}

constexpr std::array<Curriculum, 3> kCurricula{{
    {"pass_rate", "4 p (1 - p) and the floor at least, p being a task's own pass rate", pass_rate},
    {"stages", "tasks of one kind alone, until they pass: operations, then chains, then products", stages},
    {"uniform", "all alike", uniform},
}};

json to_json(const std::deque<Passes>& steps) {
  json list = json::array();
  for (const auto& [known, passed] : steps) list.push_back({known, passed});
  return list;
}

std::deque<Passes> passes_from(const json& list) {
  std::deque<Passes> steps;
  for (const json& step : list)
    steps.push_back({json_integer<std::int64_t>(step.at(0)), json_integer<std::int64_t>(step.at(1))});
  return steps;
}

}  // namespace

std::string_view name(TaskKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

TaskKind kind_of(std::string_view composition) {
  if (composition.empty()) return TaskKind::kProduct;
  const bool one = composition.find('+') == std::string_view::npos;
  while (!composition.empty()) {
    const std::string_view operation = composition.substr(0, composition.find('+'));
    if (is_product(operation)) return TaskKind::kProduct;
    composition.remove_prefix(std::min(composition.size(), operation.size() + 1));
  }
  return one ? TaskKind::kOperation : TaskKind::kChain;
}

std::span<const Curriculum> curricula() { return kCurricula; }

Result<Curriculum> find_curriculum(std::string_view name) {
  return find_named(kCurricula, name, "curriculum");
}

std::vector<CurriculumTask> draw_by_weight(std::span<const CurriculumTask> tasks,
                                           std::span<const double> weights, std::size_t count, Rng& rng) {
  std::vector<CurriculumTask> pool;
  std::vector<double> own;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (weights[i] > 0) pool.push_back(tasks[i]), own.push_back(weights[i]);
  const bool alike = std::ranges::all_of(own, [&](double weight) { return weight == own.front(); });
  std::vector<CurriculumTask> drawn;
  while (drawn.size() < count && !pool.empty()) {
    std::vector<CurriculumTask> round = pool;
    if (alike) {
      rng.shuffle(round);
    } else {
      // Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006: each task waits
      // for a time of its own, the shorter the larger its weight.
      std::vector<std::pair<double, std::size_t>> waits;
      for (std::size_t i = 0; i < pool.size(); ++i)
        waits.emplace_back(-std::log1p(-rng.uniform()) / own[i], i);
      std::ranges::sort(waits);
      for (std::size_t i = 0; i < round.size(); ++i) round[i] = pool[waits[i].second];
    }
    round.resize(std::min(round.size(), count - drawn.size()));
    drawn.insert(drawn.end(), round.begin(), round.end());
  }
  return drawn;
}

CurriculumState after_step(CurriculumState state, const std::map<std::size_t, Passes>& step,
                           std::span<const CurriculumTask> tasks, const CurriculumOptions& options) {
  Passes all;
  for (const auto& [task, passes] : step) {
    remember(state.tasks[task], passes, options);
    all.known += passes.known, all.passed += passes.passed;
  }
  state.stage = first_from(state.stage, tasks);
  remember(state.stage_steps, all, options);
  const Passes latest = sum_of(state.stage_steps);
  const bool over =
      std::cmp_equal(state.stage_steps.size(), options.window) && latest.known > 0 &&
      static_cast<double>(latest.passed) > options.threshold * static_cast<double>(latest.known);
  if (!over || state.stage == TaskKind::kProduct) return state;
  const TaskKind next = first_from(static_cast<TaskKind>(static_cast<int>(state.stage) + 1), tasks);
  if (std::ranges::find(tasks, next, &CurriculumTask::kind) == tasks.end()) return state;
  state.stage = next;
  state.stage_steps.clear();
  return state;
}

json to_json(const CurriculumState& state) {
  json tasks = json::array();
  for (const auto& [task, steps] : state.tasks) tasks.push_back({task, to_json(steps)});
  return {
      {"tasks", std::move(tasks)}, {"stage", name(state.stage)}, {"stage_steps", to_json(state.stage_steps)}};
}

CurriculumState curriculum_from(const json& json) {
  CurriculumState state;
  for (const auto& task : json.at("tasks"))
    state.tasks[json_integer<std::size_t>(task.at(0))] = passes_from(task.at(1));
  const auto stage = std::ranges::find(kKinds, json.at("stage").get<std::string>());
  state.stage = stage == kKinds.end() ? TaskKind::kOperation : static_cast<TaskKind>(stage - kKinds.begin());
  state.stage_steps = passes_from(json.at("stage_steps"));
  return state;
}

}  // namespace lathe::rl
