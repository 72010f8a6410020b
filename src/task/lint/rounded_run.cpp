#include "task/lint/rounded_run.h"

namespace lathe {
namespace {

/// Ops admit denormal errors so that a kernel may flush; added to an exact zero they would cross branches
/// that no kernel crosses.
constexpr double kUnderflow = 0x1p-125;

}  // namespace

Result<std::map<std::string, Value>> rounded_run(const BoundTask& task, const LintCase& sample, Rng& rng) {
  std::map<std::string, Value> values;
  const TaskSpec& spec = *task.spec;
  for (std::size_t i = 0; i < spec.tensors.size(); ++i) {
    values[spec.tensors[i].name] = {sample.inputs[i].shape, sample.inputs[i].decode(), {}};
  }
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    const NodeDecl& node = spec.nodes[i];
    std::vector<const Value*> in;
    for (const std::string& name : node.in) in.push_back(&values.at(name));
    const OpSite site = task.site(i);
    Value out;
    node.op->evaluate(site, in, sample.numerics, out);
    for (std::size_t k = 0; k < out.err.size(); ++k) {
      if (out.err[k] > kUnderflow) out.data[k] += (2 * rng.uniform() - 1) * out.err[k];
    }
    out.err.clear();
    out.shape = site.out;
    values[node.out] = std::move(out);
  }
  return values;
}

}  // namespace lathe
