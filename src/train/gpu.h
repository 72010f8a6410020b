#pragma once

#include "base/result.h"
#include "train/token_kernels.h"

namespace lathe::train {

/// Loads the GPU's part, which lies beside this program, and with it LibTorch's CUDA: at::kCUDA can
/// be used from then on. Errors: kUnavailable, saying what is missing.
Result<const TokenKernels*> load_gpu();

}  // namespace lathe::train
