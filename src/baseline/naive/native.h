#pragma once

#include "candidate/candidate.h"

namespace lathe::naive {

/// The naive build of a task whose reference is a C++ file: that file, computing in fp32 where all
/// operands are, else in fp64. Errors: the file cannot be read.
Result<Candidate> native_candidate(const TaskSpec& task);

}  // namespace lathe::naive
