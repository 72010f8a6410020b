#include "gym/build_stage.h"

#include <map>

namespace lathe {
namespace {

/// The dims that are compiled in, at one shape: shapes that agree on them share an artefact.
std::vector<std::int64_t> constants_at(const Candidate& candidate, const BenchShape& shape) {
  std::vector<std::int64_t> values;
  for (const std::string& name : candidate.plan.constants) values.push_back(shape.task.dims.at(name));
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
  std::map<std::vector<std::int64_t>, Artifact> done;
  for (const BenchShape& shape : shapes) {
    const auto constants = constants_at(candidate, shape);
    if (const auto found = done.find(constants); found != done.end()) {
      built.artifacts.push_back(found->second);
      continue;
    }
    auto result = backend.build(candidate, shape.task);
    if (!result.ok()) {
      built.finding = {Outcome::kInfra, "build_infra", result.error().to_string()};
      return built;
    }
    const double seconds_before = built.facts.seconds;
    built.facts = std::move(result->facts);
    built.facts.seconds += seconds_before;
    if (!result->ok) {
      built.finding = {result->outcome, result->reason, built.facts.log.substr(0, 2000)};
      return built;
    }
    built.artifacts.push_back(done.emplace(constants, std::move(result->artifact)).first->second);
  }
  return built;
}

}  // namespace lathe
