#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "task/lint/cases.h"

namespace lathe {
namespace {

using Values = std::optional<std::vector<double>>;

Values zeros(const Expected& expected) { return std::vector<double>(expected.value.data.size(), 0.0); }

Values filled_with_mean(const Expected& expected) {
  const std::vector<double>& data = expected.value.data;
  if (data.size() < 2) return std::nullopt;
  double sum = 0;
  for (const double x : data) sum += std::isfinite(x) ? x : 0;
  return std::vector<double>(data.size(), sum / static_cast<double>(data.size()));
}

/// The first input of the output's size.
Values copied_input(const Sample& sample, const Expected& expected) {
  for (const HostTensor& input : sample.inputs) {
    std::vector<double> values = input.decode();
    if (values.size() == expected.value.data.size()) return values;
  }
  return std::nullopt;
}

/// Zeros in the eighth of the output that has the largest sum of magnitudes.
Values with_skipped_tile(const Expected& expected) {
  std::vector<double> values = expected.value.data;
  if (values.size() < 2) return std::nullopt;
  const std::size_t tile = std::max<std::size_t>(1, values.size() / 8);
  std::size_t heaviest = 0;
  double most = -1;
  for (std::size_t begin = 0; begin + tile <= values.size(); begin += tile) {
    double sum = 0;
    for (std::size_t i = begin; i < begin + tile; ++i)
      sum += std::isfinite(values[i]) ? std::fabs(values[i]) : 0;
    if (sum > most) most = sum, heaviest = begin;
  }
  std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(heaviest), tile, 0.0);
  return values;
}

/// Values rounded to the next coarser format; nullopt if there is none that the dtype could
/// distinguish.
Values with_low_precision(const Expected& expected) {
  if (expected.compare != CompareKind::kBound) return std::nullopt;
  if (expected.dtype != DType::kF32 && expected.dtype != DType::kF64) return std::nullopt;
  const DType coarse = expected.dtype == DType::kF64 ? DType::kF32 : DType::kF16;
  std::vector<double> values = HostTensor::encode(coarse, expected.value.shape, expected.value.data).decode();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) values[i] = expected.value.data[i];
  }
  if (values == expected.value.data) return std::nullopt;
  return values;
}

/// The node's result and everything computed from it.
std::set<std::string> dependents(const TaskSpec& spec, const NodeDecl& start) {
  std::set<std::string> reached = {start.out};
  for (const NodeDecl& node : spec.nodes) {
    if (std::ranges::any_of(node.in, [&](const std::string& name) { return reached.contains(name); })) {
      reached.insert(node.out);
    }
  }
  return reached;
}

/// The node's op by its textbook's formula.
OpMutant textbook(const NodeDecl& node) {
  return {"textbook", [&node](const OpSite& site, std::span<const Value* const> in, Value& out) {
            node.op->evaluate(site, in, Numerics{.unit_roundoff = 0, .textbook = true}, out);
          }};
}

/// The node's whole numbers in half of their dtype's bits.
OpMutant narrowed(const NodeDecl& node) {
  return {"narrowed", [&node](const OpSite& site, std::span<const Value* const> in, Value& out) {
            node.op->evaluate(site, in, Numerics{.unit_roundoff = 0}, out);
            const double range = std::exp2(4.0 * static_cast<double>(info(node.type.dtype).bytes));
            for (double& x : out.data) x -= range * std::floor(x / range + 0.5);
          }};
}

Values run_op_mutant(const BoundTask& task, const NodeDecl& node, const OpMutant& mutant,
                     const Sample& sample, const std::string& output) {
  const auto values = evaluate_graph(task, sample.inputs, sample.numerics, {node.out, &mutant});
  if (!values.ok()) return std::nullopt;
  return values->at(output).data;
}

}  // namespace

std::vector<Mutant> generic_mutants(const TaskSpec& spec) {
  std::vector<Mutant> mutants;
  const auto add = [&](std::string name, std::size_t output, bool ordinary, auto run) {
    mutants.push_back({std::move(name), output, ordinary, false,
                       [output, run](const Sample& sample) { return run(sample, sample.expected[output]); }});
  };
  using Case = Sample;
  for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
    add("zero", i, true, [](const Case&, const Expected& expected) { return zeros(expected); });
    add("mean", i, true, [](const Case&, const Expected& expected) { return filled_with_mean(expected); });
    add("input_copy", i, true, copied_input);
    add("skipped_tile", i, true,
        [](const Case&, const Expected& expected) { return with_skipped_tile(expected); });
    add("low_precision", i, false,
        [](const Case&, const Expected& expected) { return with_low_precision(expected); });
  }
  return mutants;
}

std::vector<Mutant> op_mutants(const BoundTask& task) {
  std::vector<Mutant> mutants;
  for (const NodeDecl& node : task.spec->nodes) {
    const std::set<std::string> reached = dependents(*task.spec, node);
    const auto add = [&](const OpMutant& mutant, bool may_pass) {
      for (std::size_t i = 0; i < task.spec->outputs.size(); ++i) {
        const std::string& output = task.spec->outputs[i].name;
        if (!reached.contains(output)) continue;
        mutants.push_back({node.out + "." + std::string(mutant.name), i, false, may_pass,
                           [&task, &node, mutant, output](const Sample& sample) {
                             return run_op_mutant(task, node, mutant, sample, output);
                           }});
      }
    };
    for (const OpMutant& mutant : node.op->mutants()) add(mutant, false);
    add(textbook(node), true);
    if (!info(node.type.dtype).is_float && node.type.dtype != DType::kBool) add(narrowed(node), true);
  }
  return mutants;
}

}  // namespace lathe
