#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "candidate/launch_program.h"

namespace {

const lathe::BoundTask& task() {
  static const lathe::TaskSpec spec = lathe::parse_task(R"(
name = "fuzz"
dims = ["M", "K"]
[[tensor]]
name = "x"
shape = ["M", "K"]
[[tensor]]
name = "w"
shape = ["K", "8"]
[[tensor]]
name = "alpha"
role = "scalar"
[[node]]
out = "product"
op = "matmul"
in = ["x", "w"]
[[node]]
out = "y"
op = "mul"
in = ["product", "alpha"]
[[output]]
name = "y"
[[shape]]
name = "small"
M = 6
K = 4
)",
                                                        "fuzz.toml")
                                          .value();
  static const lathe::BoundTask bound = lathe::bind(spec, spec.shapes[0].dims).value();
  return bound;
}

void must_explain(const lathe::Error& error) {
  if (error.message.empty()) std::abort();
}

}  // namespace

/// Any answer must give a candidate or an error with a message. A candidate's text must parse to
/// the same candidate, and a plan that fits the task must compile to a program within its limits or
/// be refused.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto answer = lathe::parse_answer(text, "answer");
  if (!answer.ok()) must_explain(answer.error());
  const auto candidate = lathe::parse_candidate(answer.ok() ? answer->text : text, "fuzz");
  if (answer.ok() && !candidate.ok()) std::abort();
  if (!candidate.ok()) return must_explain(candidate.error()), 0;
  const auto checked = lathe::check_plan(*candidate, *task().spec);
  if (!checked.ok()) return must_explain(checked.error()), 0;
  if (!candidate->has_plan()) return 0;
  const auto program = lathe::compile_plan(
      *candidate, task(), {{"threads", 2}, {"cores", 2}, {"l2_bytes", 1 << 20}, {"sm_count", 132}});
  if (!program.ok()) return must_explain(program.error()), 0;
  if (program->steps.size() > 4096) std::abort();
  std::set<std::string> library_calls;
  for (const lathe::BoundStep& step : program->steps)
    if (!step.node_text.empty()) library_calls.insert(step.node_text);
  if (library_calls.size() > task().spec->nodes.size()) std::abort();
  for (const lathe::BoundStep& step : program->steps)
    if (step.items < 0 || step.carveout < -1 || step.carveout > 100) std::abort();
  for (const lathe::BoundTma& map : program->maps)
    if (map.dims.size() != map.box.size() || map.strides.size() + 1 != map.dims.size()) std::abort();
  return 0;
}
