#pragma once

#include <memory>

#include "backend/naive_grading.h"

namespace lathe {

/// For kernels of the processor: one process, one set of inputs, memory that keeps the reference's answer,
/// the process's own clock, a reference computed from the buffers that the candidate had, rtol = atol = 0.01
/// on 99% of the values, and a verdict that is read from standard output. Runs in namespaces with limits, as
/// nobody; safe for the host. It forks: the caller should have no other threads that hold locks.
std::unique_ptr<NaiveGrader> make_naive_grader();

}  // namespace lathe
