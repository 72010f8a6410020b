#pragma once

#include <ATen/core/Tensor.h>

#include "train/packed_ops.h"

namespace lathe::train {

/// Rotation and causal attention within examples, from rows [n, heads + 2 * kv_heads, dim] of q, k
/// and v in bf16 to [n, heads, dim]: on a GPU, by the flash attention of variable lengths that
/// LibTorch has, with the gradients of q, k and v written where the rows' gradient has them.
at::Tensor packed_attention(const TokenKernels& kernels, const at::Tensor& qkv, std::int64_t kv_heads,
                            const PackedLayout& layout);

}  // namespace lathe::train
