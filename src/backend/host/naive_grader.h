#pragma once

#include <memory>

#include "backend/host/host_backend.h"
#include "backend/naive_grading.h"

namespace lathe {

/// The naive grader for Python candidates. Its mistakes: candidate, reference, inputs, expected
/// outputs, clock and comparison in one process, where each can be replaced; the reference runs
/// after the candidate, on what that left of the inputs; the same inputs every time, from a fixed
/// seed; a clock that stops when the call returns; rtol = atol = 0.01; and the first frame on the
/// channel is the verdict. It runs in the HOST tier's jail without its filter. Errors: as
/// make_host_backend().
Result<std::unique_ptr<NaiveGrader>> make_naive_host_grader(const HostBackendOptions& options);

}  // namespace lathe
