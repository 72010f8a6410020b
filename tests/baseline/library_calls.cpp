#include "tests/baseline/library_calls.h"

#include <gtest/gtest.h>

#include "baseline/compose.h"
#include "candidate/launch_program.h"

namespace lathe {

std::vector<std::string> calls_of(const TaskSpec& task, const Candidate& candidate) {
  const auto bound = lathe::bind(task, task.shapes[0].dims);
  const auto program = compile_plan(candidate, *bound, {});
  EXPECT_TRUE(program.ok()) << program.error().to_string();
  std::vector<std::string> calls;
  if (!program.ok()) return calls;
  for (const BoundStep& step : program->steps)
    if (step.kind == PlanStep::Kind::kNode) calls.push_back(step.node_text);
  return calls;
}

std::vector<std::string> calls_of(const GraphCase& graph_case, std::string_view library) {
  const TaskSpec task = make_task(graph_case);
  const auto candidate =
      compose_candidate(task, vendor_groups(task, library), std::string(library), Dialect::kCuda);
  EXPECT_TRUE(candidate.ok()) << candidate.error().to_string();
  return calls_of(task, *candidate);
}

}  // namespace lathe
