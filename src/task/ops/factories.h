#pragma once

#include <memory>
#include <vector>

#include "task/op.h"

/// Each file of ops adds what it defines; registry.cpp calls them all.
namespace lathe::ops {

using OpList = std::vector<std::unique_ptr<const Op>>;

void add_activations(OpList& list);
void add_argmax(OpList& list);
void add_attention(OpList& list);
void add_batch_norm(OpList& list);
void add_bias_add(OpList& list);
void add_binary_math(OpList& list);
void add_cast(OpList& list);
void add_concat(OpList& list);
void add_conv(OpList& list);
void add_conv_transpose(OpList& list);
void add_cross_entropy(OpList& list);
void add_diag(OpList& list);
void add_extrema(OpList& list);
void add_flip(OpList& list);
void add_gather(OpList& list);
void add_group_norm(OpList& list);
void add_l2_normalize(OpList& list);
void add_layer_norm(OpList& list);
void add_linear(OpList& list);
void add_logsumexp(OpList& list);
void add_losses(OpList& list);
void add_matmul(OpList& list);
void add_norms(OpList& list);
void add_outer(OpList& list);
void add_pad(OpList& list);
void add_piecewise(OpList& list);
void add_pool(OpList& list);
void add_reshape(OpList& list);
void add_rms_norm(OpList& list);
void add_scalar_math(OpList& list);
void add_scans(OpList& list);
void add_slice(OpList& list);
void add_softmax(OpList& list);
void add_sums(OpList& list);
void add_transpose(OpList& list);
void add_unary_math(OpList& list);
void add_variance(OpList& list);
void add_where(OpList& list);

}  // namespace lathe::ops
