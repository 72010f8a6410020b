#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "task/lint/cases.h"

namespace lathe {

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
