#pragma once

#include <memory>

#include "backend/cuda/broker/cuda_backend.h"
#include "backend/naive_grading.h"

namespace lathe {

/// The naive grader for GPU kernels, in a process of its own. Its mistakes: reference and candidate
/// share a context and one set of inputs, freed memory still holds the reference's answer, events
/// on one stream are the clock, error codes are ignored, there are no canaries, and 99% of the
/// values within rtol = atol = 0.01 are enough.
Result<std::unique_ptr<NaiveGrader>> make_naive_cuda_grader(const CudaBackendOptions& options);

}  // namespace lathe
