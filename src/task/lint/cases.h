#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "task/compare.h"
#include "task/generate_inputs.h"
#include "task/reference.h"

namespace lathe {

/// One set of inputs with what the outputs must be.
struct LintCase {
  Distribution distribution = Distribution::kNormal;
  Numerics numerics;
  std::vector<HostTensor> inputs;
  std::vector<Expected> expected;
};

/// The headline shape, halved dim by dim inside the domain until one evaluation takes about a millisecond.
Dims lint_shape(const TaskSpec& spec);

Result<LintCase> make_case(const BoundTask& task, const Reference& reference, Distribution distribution,
                           const Seed& seed);

/// Rounds values to the output's dtype and compares them, as a kernel's result would be.
Comparison judge(const Expected& expected, std::span<const double> values);

/// Evaluates a graph while every op's result is moved by a random part of the error that the op admits for
/// itself. What comes out must stay inside the propagated bound, or the bound would refuse honest kernels.
Result<std::map<std::string, Value>> rounded_run(const BoundTask& task, const LintCase& sample, Rng& rng);

/// A wrong kernel: the values it would return for one output of a case. nullopt where it does not apply.
struct Mutant {
  std::string name;  ///< "zero", "h.dropped_bias"
  std::size_t output = 0;
  bool ordinary_inputs_only = false;  ///< must fail on inputs such as users have
  std::function<std::optional<std::vector<double>>(const LintCase&)> run;
};

/// Wrong for any task: zero, mean, input_copy, skipped_tile, and low_precision for each output.
std::vector<Mutant> generic_mutants(const TaskSpec& spec);

/// Every node's own mutants, seen through each output that depends on the node. Refers to `task`.
std::vector<Mutant> op_mutants(const BoundTask& task);

}  // namespace lathe
