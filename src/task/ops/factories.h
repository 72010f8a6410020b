#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "task/op.h"

namespace lathe::ops {

/// The functions that add the ops of each file; registry.cpp calls them all.
using OpList = std::vector<std::unique_ptr<const Op>>;

void add_activations(OpList& list);
void add_adaptive_pool(OpList& list);
void add_argmax(OpList& list);
void add_attention(OpList& list);
void add_batch_norm(OpList& list);
void add_bias_add(OpList& list);
void add_binary_math(OpList& list);
void add_bitwise(OpList& list);
void add_clamp(OpList& list);
void add_comparisons(OpList& list);
void add_constants(OpList& list);
void add_conv(OpList& list);
void add_conv_transpose(OpList& list);
void add_cosine_similarity(OpList& list);
void add_cross_entropy(OpList& list);
void add_diag(OpList& list);
void add_gather(OpList& list);
void add_grid_sample(OpList& list);
void add_group_norm(OpList& list);
void add_grouped_matmul(OpList& list);
void add_l2_normalize(OpList& list);
void add_layer_norm(OpList& list);
void add_layout(OpList& list);
void add_linear(OpList& list);
void add_linear_scan(OpList& list);
void add_losses(OpList& list);
void add_matmul(OpList& list);
void add_outer(OpList& list);
void add_piecewise(OpList& list);
void add_pool(OpList& list);
void add_reductions(OpList& list);
void add_repeats(OpList& list);
void add_rms_norm(OpList& list);
void add_scalar_math(OpList& list);
void add_scans(OpList& list);
void add_scatter(OpList& list);
void add_scatter_add(OpList& list);
void add_slicing(OpList& list);
void add_segments(OpList& list);
void add_softmax(OpList& list);
void add_sort(OpList& list);
void add_steps(OpList& list);
void add_take_along(OpList& list);
void add_triplet_margin(OpList& list);
void add_unary_math(OpList& list);
void add_unfold(OpList& list);
void add_upsample(OpList& list);
void add_upsample_bicubic(OpList& list);
void add_where(OpList& list);

struct OpTraits {
  std::string_view name;
  OpClass op_class;
  int min_inputs;
  int max_inputs;
  std::vector<AttrRule> attr_rules = {};
};

/// An Op described by its traits; every registered one is.
class NamedOp : public Op {
 public:
  explicit NamedOp(OpTraits traits) : traits_(std::move(traits)) {}
  std::string_view name() const final { return traits_.name; }
  OpClass op_class() const final { return traits_.op_class; }
  int min_inputs() const final { return traits_.min_inputs; }
  int max_inputs() const final { return traits_.max_inputs; }
  std::vector<AttrRule> attr_rules() const final { return traits_.attr_rules; }
  /// Contractions override this; for other ops only the memory traffic has a useful lower bound.
  double essential_flops(const OpSite&) const override { return 0; }
  /// Those of the class; ops whose inputs are read in another way override them.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override;
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override;
  /// See telling_inputs().
  virtual std::vector<double> telling(const Attrs& attrs, std::size_t input, DType dtype) const {
    (void)attrs, (void)input, (void)dtype;
    return {};
  }

 private:
  OpTraits traits_;
};

}  // namespace lathe::ops
