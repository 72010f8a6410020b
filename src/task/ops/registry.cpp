#include <algorithm>

#include "task/ops/factories.h"
#include "task/telling.h"

namespace lathe {
namespace {

/// Sorted by name.
const ops::OpList& registry() {
  static const ops::OpList list = [] {
    ops::OpList ops;
    ops::add_activations(ops);
    ops::add_adaptive_pool(ops);
    ops::add_argmax(ops);
    ops::add_attention(ops);
    ops::add_batch_norm(ops);
    ops::add_bias_add(ops);
    ops::add_binary_math(ops);
    ops::add_bitwise(ops);
    ops::add_clamp(ops);
    ops::add_comparisons(ops);
    ops::add_constants(ops);
    ops::add_conv(ops);
    ops::add_conv_transpose(ops);
    ops::add_cosine_similarity(ops);
    ops::add_cross_entropy(ops);
    ops::add_diag(ops);
    ops::add_gather(ops);
    ops::add_grid_sample(ops);
    ops::add_group_norm(ops);
    ops::add_grouped_matmul(ops);
    ops::add_l2_normalize(ops);
    ops::add_layer_norm(ops);
    ops::add_layout(ops);
    ops::add_linear(ops);
    ops::add_linear_scan(ops);
    ops::add_losses(ops);
    ops::add_matmul(ops);
    ops::add_outer(ops);
    ops::add_piecewise(ops);
    ops::add_pool(ops);
    ops::add_reductions(ops);
    ops::add_repeats(ops);
    ops::add_rms_norm(ops);
    ops::add_scalar_math(ops);
    ops::add_scans(ops);
    ops::add_scatter(ops);
    ops::add_scatter_add(ops);
    ops::add_slicing(ops);
    ops::add_segments(ops);
    ops::add_softmax(ops);
    ops::add_sort(ops);
    ops::add_steps(ops);
    ops::add_take_along(ops);
    ops::add_triplet_margin(ops);
    ops::add_unary_math(ops);
    ops::add_unfold(ops);
    ops::add_upsample(ops);
    ops::add_upsample_bicubic(ops);
    ops::add_where(ops);
    std::ranges::sort(ops, {}, [](const auto& op) { return op->name(); });
    return ops;
  }();
  return list;
}

}  // namespace

const Op* find_op(std::string_view name) {
  const auto found =
      std::ranges::lower_bound(registry(), name, {}, [](const auto& op) { return op->name(); });
  return found != registry().end() && (*found)->name() == name ? found->get() : nullptr;
}

std::vector<const Op*> all_ops() {
  std::vector<const Op*> ops;
  for (const auto& op : registry()) ops.push_back(op.get());
  return ops;
}

std::vector<double> telling_inputs(const Op& op, const Attrs& attrs, std::size_t input, DType dtype) {
  return static_cast<const ops::NamedOp&>(op).telling(attrs, input, dtype);
}

}  // namespace lathe
