#pragma once

#include <cstdint>
#include <memory>

#include "lm/cpu/draw.h"
#include "lm/runner.h"

namespace lathe::lm {

/// What liblathe-torch-cuda.so offers: the one library that needs LibTorch's CUDA part, and so is
/// loaded only where a GPU is asked for. Its symbol lathe_torch_cuda_plugin() returns it.
struct CudaPlugin {
  Status (*check)();
  std::int64_t (*free_bytes)();
  /// One token for each row of logits, by the kernel that steps use: for tests.
  Result<std::vector<Drawn>> (*draw)(const at::Tensor& logits, std::span<const DrawState> rows);
  Result<std::unique_ptr<Runner>> (*make_runner)(std::shared_ptr<const Decoder> decoder,
                                                 const RunnerOptions& options);
};

/// Loads the library beside this program.
Result<const CudaPlugin*> cuda_plugin();

}  // namespace lathe::lm
