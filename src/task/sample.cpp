#include "task/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {
namespace {

constexpr std::array kReaches = {kLongestReach, 32.0, 4.0};
/// Ordinary values times this stay below 1e30, which kernels use for infinity.
constexpr double kWideReach = 0x1p96;
/// Ops beside those that only move whose results are elements of their inputs, up to the sign or to
/// a rounding to another dtype, or constants.
constexpr std::array<std::string_view, 16> kSelections = {
    "relu",  "abs",        "neg",        "clamp",      "hardtanh",   "cast",       "max",    "min",
    "where", "reduce_max", "reduce_min", "max_pool1d", "max_pool2d", "max_pool3d", "argmax", "argmin"};

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

/// Whether no node computes with the values, so that their size can hurt no honest kernel.
bool only_selects(const TaskSpec& spec) {
  return std::ranges::all_of(spec.nodes, [](const NodeDecl& node) {
    return node.op->op_class() == OpClass::kMove || std::ranges::count(kSelections, node.op->name()) > 0;
  });
}

}  // namespace

Result<std::optional<Sample>> draw_sample(const Reference& reference, const BoundTask& task,
                                          Distribution distribution, const Seed& seed,
                                          const SampleOptions& options) {
  Sample sample{distribution, options.numerics, {}, {}};
  sample.numerics.sparse_sums = distribution == Distribution::kProbe;
  const bool extreme = is_extreme(distribution);
  if (extreme && task.spec->nodes.empty()) return std::optional<Sample>();
  std::vector<double> reaches(kReaches.begin(), kReaches.end());
  if (extreme && only_selects(*task.spec)) reaches.insert(reaches.begin(), kWideReach);
  for (const double reach : reaches) {
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
