#include "gym/build_stage.h"

#include <map>

#include "base/parallel.h"

namespace lathe {
namespace {

/// The dims that are compiled in, at one shape: shapes that agree on them share an artefact.
std::vector<std::int64_t> constants_at(const Candidate& candidate, const BenchShape& shape) {
  std::vector<std::int64_t> values;
  if (!candidate.has_plan()) return values;
  for (const std::string& name : candidate.plan().constants) values.push_back(shape.task.dims.at(name));
  return values;
}

}  // namespace

BuiltCandidate build_for_shapes(Backend& backend, const Candidate& candidate,
                                std::span<const BenchShape> shapes) {
  BuiltCandidate built{candidate, {}, {}, {}};
  if (const Status checked = check_plan(candidate, *shapes.front().task.spec); !checked.ok()) {
    built.finding = {Outcome::kBuildFailed, "bad_plan", checked.error().to_string()};
    return built;
  }
  std::map<std::vector<std::int64_t>, const BenchShape*> distinct;
  for (const BenchShape& shape : shapes) distinct.emplace(constants_at(candidate, shape), &shape);
  std::vector<std::pair<std::vector<std::int64_t>, const BenchShape*>> jobs(distinct.begin(), distinct.end());
  std::vector<BuildResult> results(jobs.size());
  std::vector<const BoundTask*> tasks;
  for (const BenchShape& shape : shapes) tasks.push_back(&shape.task);
  const Status done = for_each_index(static_cast<int>(jobs.size()), [&](int i) -> Status {
    const auto job = static_cast<std::size_t>(i);
    if (!candidate.has_plan() && backend.device().builds_every_shape) {
      LATHE_TRY(results[job], backend.build_together(candidate, tasks, {}));
      return Ok{};
    }
    LATHE_TRY(results[job], backend.build(candidate, jobs[job].second->task));
    return Ok{};
  });
  if (!done.ok()) {
    built.finding = {Outcome::kInfra, "build_infra", done.error().to_string()};
    return built;
  }
  std::map<std::vector<std::int64_t>, Artifact> artifacts;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    BuildResult& result = results[i];
    const double seconds_before = built.facts.seconds;
    built.facts = std::move(result.facts);
    built.facts.seconds += seconds_before;
    if (!result.ok) {
      built.finding = {result.outcome, result.reason, built.facts.log.substr(0, 2000)};
      return built;
    }
    artifacts.emplace(std::move(jobs[i].first), std::move(result.artifact));
  }
  for (const BenchShape& shape : shapes)
    built.artifacts.push_back(artifacts.at(constants_at(candidate, shape)));
  return built;
}

}  // namespace lathe
