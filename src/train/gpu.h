#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "train/links.h"
#include "train/reducer.h"
#include "train/token_kernels.h"

namespace lathe::train {

/// Loads the GPU's part, which lies beside this program, and with it LibTorch's CUDA: at::kCUDA can
/// be used from then on, and is the GPU of that number. Errors: kUnavailable, saying what is
/// missing.
Result<const TokenKernels*> load_gpu(int index = 0);
/// That LibTorch finds.
int gpu_count();
/// The UUID of the GPU that LibTorch computes on, "GPU-...", by which processes that share it know
/// it. After load_gpu(). Errors: kUnavailable.
Result<std::string> uuid_of_gpu();
/// Joins the GPUs of all of a run's processes by NCCL; returns once each has called it, after
/// load_gpu(). `links` must outlive the reducer.
Result<std::unique_ptr<Reducer>> join_gpus(const Links& links);

}  // namespace lathe::train
