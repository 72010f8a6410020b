#include "task/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>

namespace lathe {
namespace {

constexpr std::array kReaches = {kLongestReach, 32.0, 4.0};

/// Whether every value is a number that the output's dtype holds, with a tolerance that means
/// something.
bool is_in_range(const Expected& expected) {
  const DTypeInfo& type = info(expected.dtype);
  if (!type.is_float) return true;
  const Value& value = expected.value;
  for (std::size_t i = 0; i < value.data.size(); ++i)
    if (!(std::fabs(value.data[i]) + value.error_at(i) <= type.largest)) return false;
  return true;
}

bool is_in_range(const std::vector<Expected>& outputs) {
  return std::ranges::all_of(
      outputs, [](const Expected& expected) { return !expected.may_overflow && is_in_range(expected); });
}

/// The nodes whose elements are products' sums, each of its own, and what is done to these one by
/// one.
std::set<std::string> nodes_of_own_sums(const TaskSpec& spec) {
  std::set<std::string> own, shared;
  for (const NodeDecl& node : spec.nodes) {
    const OpClass kind = node.op->op_class();
    const auto is_in = [&](const std::set<std::string>& nodes) {
      return std::ranges::any_of(node.in, [&](const std::string& in) { return nodes.contains(in); });
    };
    const bool one_by_one = kind == OpClass::kElementwise || kind == OpClass::kMove;
    if (is_in(shared) || (!one_by_one && kind != OpClass::kContraction))
      shared.insert(node.out);
    else if (kind == OpClass::kContraction || is_in(own))
      own.insert(node.out);
  }
  return own;
}

}  // namespace

Result<std::optional<Sample>> draw_sample(const Reference& reference, const BoundTask& task,
                                          Distribution distribution, const Seed& seed,
                                          const SampleOptions& options) {
  Sample sample{distribution, options.numerics, {}, {}};
  sample.numerics.sparse_sums = distribution == Distribution::kProbe;
  const bool extreme = is_extreme(distribution);
  if (extreme && task.spec->nodes.empty()) return std::optional<Sample>();
  for (const double reach : kReaches) {
    sample.inputs = generate_inputs(task, distribution, seed, reach);
    if (options.part) {
      LATHE_TRY(sample.expected,
                reference.evaluate_part(task, sample.inputs, sample.numerics, *options.part));
    } else {
      LATHE_TRY(sample.expected, reference.evaluate(task, sample.inputs, sample.numerics));
    }
    if (distribution == Distribution::kNormal) {
      const std::set<std::string> own = nodes_of_own_sums(*task.spec);
      for (Expected& expected : sample.expected) expected.independent_sums = own.contains(expected.name);
    }
    if (!extreme || is_in_range(sample.expected)) return std::optional(std::move(sample));
  }
  return std::optional<Sample>();
}

}  // namespace lathe
