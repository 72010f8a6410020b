#pragma once

#include <string>

#include "base/result.h"
#include "train/token_kernels.h"

namespace lathe::train {

/// Loads the GPU's part, which lies beside this program, and with it LibTorch's CUDA: at::kCUDA can
/// be used from then on. Errors: kUnavailable, saying what is missing.
Result<const TokenKernels*> load_gpu();
/// The UUID of the GPU that LibTorch computes on, "GPU-...", by which processes that share it know
/// it. After load_gpu(). Errors: kUnavailable.
Result<std::string> uuid_of_gpu();

}  // namespace lathe::train
