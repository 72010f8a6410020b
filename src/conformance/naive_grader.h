#pragma once

#include <memory>

#include "backend/naive_grading.h"

namespace lathe {

/// The naive grader for CPU kernels. Its mistakes: one process and one set of inputs, memory that
/// still holds the reference's answer, the process's own clock, a reference computed from the
/// buffers that the candidate could write, rtol = atol = 0.01 on 99% of the values, and a verdict
/// read from standard output. It runs in namespaces with limits, as nobody, and is safe for the
/// host. It forks, so no other thread of the caller's should hold locks.
std::unique_ptr<NaiveGrader> make_naive_grader();

}  // namespace lathe
