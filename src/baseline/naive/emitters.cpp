#include "baseline/naive/emitters.h"

#include <algorithm>
#include <array>

namespace lathe::naive {
namespace {

struct Entry {
  std::string_view op;
  Emitter emitter;
};

constexpr std::array kEmitters = {
    Entry{"adaptive_avg_pool1d", emit_adaptive_pool},
    Entry{"adaptive_avg_pool2d", emit_adaptive_pool},
    Entry{"adaptive_avg_pool3d", emit_adaptive_pool},
    Entry{"adaptive_max_pool1d", emit_adaptive_pool},
    Entry{"adaptive_max_pool2d", emit_adaptive_pool},
    Entry{"adaptive_max_pool3d", emit_adaptive_pool},
    Entry{"all", emit_reduction},
    Entry{"any", emit_reduction},
    Entry{"argmax", emit_arg_extremum},
    Entry{"argmin", emit_arg_extremum},
    Entry{"argsort", emit_argsort},
    Entry{"attention", emit_attention},
    Entry{"avg_pool1d", emit_pool},
    Entry{"avg_pool2d", emit_pool},
    Entry{"avg_pool3d", emit_pool},
    Entry{"bincount", emit_bincount},
    Entry{"concat", emit_concat},
    Entry{"conv1d", emit_conv},
    Entry{"conv2d", emit_conv},
    Entry{"conv3d", emit_conv},
    Entry{"conv_transpose1d", emit_conv_transpose},
    Entry{"conv_transpose2d", emit_conv_transpose},
    Entry{"conv_transpose3d", emit_conv_transpose},
    Entry{"cosine_similarity", emit_cosine_similarity},
    Entry{"cross_entropy", emit_cross_entropy},
    Entry{"cummax", emit_scan},
    Entry{"cummin", emit_scan},
    Entry{"cumprod", emit_scan},
    Entry{"cumsum", emit_scan},
    Entry{"diag", emit_diag},
    Entry{"embedding", emit_gather},
    Entry{"flatten", emit_same_elements},
    Entry{"flip", emit_flip},
    Entry{"fold", emit_fold},
    Entry{"full", emit_full},
    Entry{"gather", emit_gather},
    Entry{"grid_sample", emit_grid_sample},
    Entry{"group_norm", emit_group_norm},
    Entry{"grouped_matmul", emit_grouped_matmul},
    Entry{"instance_norm", emit_group_norm},
    Entry{"iota", emit_iota},
    Entry{"l1_norm", emit_reduction},
    Entry{"l2_normalize", emit_l2_normalize},
    Entry{"layer_norm", emit_layer_norm},
    Entry{"linear", emit_linear},
    Entry{"linear_scan", emit_linear_scan},
    Entry{"log_softmax", emit_log_softmax},
    Entry{"logcumsumexp", emit_scan},
    Entry{"logsumexp", emit_logsumexp},
    Entry{"matmul", emit_matmul},
    Entry{"max_pool1d", emit_pool},
    Entry{"max_pool2d", emit_pool},
    Entry{"max_pool3d", emit_pool},
    Entry{"mean", emit_reduction},
    Entry{"nll_loss", emit_nll_loss},
    Entry{"norm", emit_reduction},
    Entry{"outer", emit_outer},
    Entry{"pad", emit_pad},
    Entry{"prod", emit_reduction},
    Entry{"reduce_max", emit_reduction},
    Entry{"reduce_min", emit_reduction},
    Entry{"repeat_interleave", emit_repeat_interleave},
    Entry{"reshape", emit_same_elements},
    Entry{"rms_norm", emit_rms_norm},
    Entry{"roll", emit_roll},
    Entry{"scatter", emit_scatter},
    Entry{"scatter_add", emit_scatter_add},
    Entry{"scatter_max", emit_scatter_extremum},
    Entry{"scatter_min", emit_scatter_extremum},
    Entry{"segment_max", emit_segment_extremum},
    Entry{"segment_min", emit_segment_extremum},
    Entry{"segment_sum", emit_segment_sum},
    Entry{"slice", emit_slice},
    Entry{"softmax", emit_softmax},
    Entry{"sort", emit_sort},
    Entry{"std", emit_variance},
    Entry{"sum", emit_reduction},
    Entry{"take_along", emit_take_along},
    Entry{"tile", emit_tile},
    Entry{"transpose", emit_transpose},
    Entry{"tril", emit_triangle},
    Entry{"triplet_margin_loss", emit_triplet_margin},
    Entry{"triu", emit_triangle},
    Entry{"unfold", emit_unfold},
    Entry{"upsample_bicubic2d", emit_upsample_bicubic},
    Entry{"upsample_bilinear2d", emit_upsample_linear},
    Entry{"upsample_linear1d", emit_upsample_linear},
    Entry{"upsample_nearest1d", emit_upsample_nearest},
    Entry{"upsample_nearest2d", emit_upsample_nearest},
    Entry{"upsample_nearest3d", emit_upsample_nearest},
    Entry{"upsample_trilinear3d", emit_upsample_linear},
    Entry{"var", emit_variance},
};

}  // namespace

Emitter find_emitter(const Op& op) {
  const auto entry =
      std::find_if(kEmitters.begin(), kEmitters.end(), [&](const Entry& e) { return e.op == op.name(); });
  if (entry != kEmitters.end()) return entry->emitter;
  if (op.op_class() == OpClass::kLoss) return emit_loss;
  return op.op_class() == OpClass::kElementwise ? emit_elementwise : nullptr;
}

}  // namespace lathe::naive
