#pragma once

#include <memory>

#include "backend/cuda/broker/cuda_backend.h"
#include "backend/naive_grading.h"

namespace lathe {

/// For kernels of the GPU: one context for reference and candidate, one set of inputs, freed blocks that keep
/// the reference's answer, events of one stream, no look at error codes, no canaries, rtol = atol = 0.01 on
/// 99% of the values. In a process of its own.
Result<std::unique_ptr<NaiveGrader>> make_naive_cuda_grader(const CudaBackendOptions& options);

}  // namespace lathe
