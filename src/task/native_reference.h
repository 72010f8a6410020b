#pragma once

#include "task/reference.h"

namespace lathe {

/// A reference written in C++: `extern "C" void reference(const double* const* in, double* const* out,
/// const long long* dims)`, row-major, in the order of the task's tensors, outputs and dims. The source is
/// the task's author's, so it is trusted, but it runs in a child process under a time limit.
/// Its results come without an analysis of rounding; each element may err by
/// tolerance * (64 u |y| + 8 u max|y|). Errors: the source is missing or does not compile.
Result<std::unique_ptr<Reference>> make_native_reference(const TaskSpec& spec);

}  // namespace lathe
