#pragma once

#include "task/lint/cases.h"

namespace lathe {

/// Evaluates a graph while every op's result is moved by a random part of the error that the op admits for
/// itself. What comes out must stay inside the propagated bound, or the bound would refuse honest kernels.
Result<std::map<std::string, Value>> rounded_run(const BoundTask& task, const LintCase& sample, Rng& rng);

}  // namespace lathe
