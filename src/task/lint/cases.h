#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "task/compare.h"
#include "task/sample.h"

namespace lathe {

/// The headline shape, halved dim by dim inside the domain until one evaluation takes about a
/// millisecond.
Dims lint_shape(const TaskSpec& spec);

/// Rounds values to the output's dtype and compares them, as a kernel's result would be.
Comparison judge(const Expected& expected, std::span<const double> values);

/// Evaluates a graph with random errors added to every op's result, within the op's own error
/// bound. The outputs must stay within the propagated bound; otherwise the bound would reject
/// honest kernels.
Result<std::map<std::string, Value>> rounded_run(const BoundTask& task, const Sample& sample, Rng& rng);

/// A wrong kernel: computes the values it would return for one output of a case, or nullopt if it
/// does not apply.
struct Mutant {
  std::string name;  ///< "zero", "h.dropped_bias"
  std::size_t output = 0;
  bool ordinary_inputs_only = false;  ///< must fail on inputs like users' data
  bool may_pass = false;              ///< a mistake only on inputs that the task may not have
  std::function<std::optional<std::vector<double>>(const Sample&)> run;
};

/// The mutants of every task: zero, mean, input_copy, skipped_tile and low_precision for each
/// output.
std::vector<Mutant> generic_mutants(const TaskSpec& spec);

/// The mutants of every node's op, as seen in each output that depends on the node. Refers to
/// `task`.
std::vector<Mutant> op_mutants(const BoundTask& task);

}  // namespace lathe
