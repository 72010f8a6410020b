#pragma once

#include "baseline/naive/nest.h"

/// The emitters, by the file that defines them; emitters.cpp says which op uses which.
namespace lathe::naive {

LoopNest emit_elementwise(const Site& site);

LoopNest emit_matmul(const Site& site);
LoopNest emit_linear(const Site& site);
LoopNest emit_outer(const Site& site);
LoopNest emit_grouped_matmul(const Site& site);

LoopNest emit_reduction(const Site& site);
LoopNest emit_logsumexp(const Site& site);
LoopNest emit_variance(const Site& site);
LoopNest emit_arg_extremum(const Site& site);
LoopNest emit_cosine_similarity(const Site& site);

LoopNest emit_softmax(const Site& site);
LoopNest emit_log_softmax(const Site& site);
LoopNest emit_layer_norm(const Site& site);
LoopNest emit_rms_norm(const Site& site);
LoopNest emit_l2_normalize(const Site& site);
LoopNest emit_group_norm(const Site& site);
LoopNest emit_scan(const Site& site);
LoopNest emit_linear_scan(const Site& site);
LoopNest emit_sort(const Site& site);
LoopNest emit_argsort(const Site& site);

LoopNest emit_concat(const Site& site);
LoopNest emit_diag(const Site& site);
LoopNest emit_triangle(const Site& site);
LoopNest emit_flip(const Site& site);
LoopNest emit_full(const Site& site);
LoopNest emit_gather(const Site& site);
LoopNest emit_iota(const Site& site);
LoopNest emit_pad(const Site& site);
LoopNest emit_repeat_interleave(const Site& site);
LoopNest emit_roll(const Site& site);
LoopNest emit_same_elements(const Site& site);
LoopNest emit_slice(const Site& site);
LoopNest emit_take_along(const Site& site);
LoopNest emit_tile(const Site& site);
LoopNest emit_transpose(const Site& site);

LoopNest emit_scatter(const Site& site);
LoopNest emit_segment_sum(const Site& site);
LoopNest emit_segment_extremum(const Site& site);
LoopNest emit_scatter_extremum(const Site& site);
LoopNest emit_scatter_add(const Site& site);
LoopNest emit_bincount(const Site& site);

LoopNest emit_loss(const Site& site);
LoopNest emit_cross_entropy(const Site& site);
LoopNest emit_nll_loss(const Site& site);
LoopNest emit_triplet_margin(const Site& site);

LoopNest emit_attention(const Site& site);

LoopNest emit_conv(const Site& site);
LoopNest emit_conv_transpose(const Site& site);
LoopNest emit_pool(const Site& site);
LoopNest emit_unfold(const Site& site);
LoopNest emit_fold(const Site& site);

LoopNest emit_adaptive_pool(const Site& site);
LoopNest emit_grid_sample(const Site& site);
LoopNest emit_upsample_bicubic(const Site& site);
LoopNest emit_upsample_nearest(const Site& site);
LoopNest emit_upsample_linear(const Site& site);

}  // namespace lathe::naive
