#pragma once

#include <dnnl.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "baseline/vendor/node_call.h"

namespace lathe::vendor {

using Desc = dnnl::memory::desc;
inline constexpr auto kInference = dnnl::prop_kind::forward_inference;

using Type = dnnl::memory::data_type;
/// Of all operands of the call: fp32 or bf16.
Type type_of(const NodeCall& call);
Extents row_major_strides(const Extents& shape);

using ExecArgs = std::vector<std::pair<int, dnnl::memory>>;

/// Collects the primitives of one call with their memory, including the scratchpads that oneDNN
/// would otherwise allocate at execution.
class OnednnBuilder {
 public:
  explicit OnednnBuilder(const NodeCall& call);
  ~OnednnBuilder();

  /// Row-major, of the call's type.
  Desc plain(const Extents& shape) const;
  /// In the layout that the primitive prefers.
  Desc any(const Extents& shape) const;

  /// The caller's buffer, seen through `desc`.
  dnnl::memory caller(const Operand& operand, const Desc& desc);
  dnnl::memory caller(const Operand& operand) { return caller(operand, plain(operand.shape)); }
  /// Memory that lives in the call.
  dnnl::memory own(const Desc& desc);
  /// `memory` itself if it already has the layout, else a copy that every execution reorders.
  dnnl::memory to_layout(const dnnl::memory& memory, const Desc& desc);
  void reorder(const dnnl::memory& from, const dnnl::memory& to);
  /// Appends a primitive whose attributes came from `attributes()`.
  template <class PrimitiveDesc>
  void add(const PrimitiveDesc& desc, ExecArgs args) {
    args.emplace_back(DNNL_ARG_SCRATCHPAD, own(desc.scratchpad_desc()));
    append(dnnl::primitive(desc.get()), std::move(args));
  }

  static dnnl::primitive_attr attributes();
  const dnnl::engine& engine() const { return engine_; }
  std::unique_ptr<PreparedCall> finish();

 private:
  class Call;
  void append(dnnl::primitive primitive, ExecArgs args);

  Type type_;
  dnnl::engine engine_;
  std::unique_ptr<Call> call_;
};

struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha = 0;
  float beta = 0;
};
std::optional<Eltwise> eltwise_of(const Node& node);
std::optional<dnnl::algorithm> binary_of(const Node& node);

/// The operand's extents expanded to the rank of the node's result, with ones in front, or around a
/// bias along an axis.
Extents aligned_extents(const Node& node, const Operand& operand);

/// The post-operations of a call's first primitive: its attributes, and the tensors that they read.
struct PostOps {
  dnnl::primitive_attr attr = OnednnBuilder::attributes();
  ExecArgs args;
};

/// The nodes from `first` on as post-operations: activations, and sums or products with a tensor of
/// the result's shape or with one value for each index of `channel_axis`. `result` are the
/// primitive's own extents, which may merge leading axes of the nodes'.
Result<PostOps> post_ops(OnednnBuilder& builder, const NodeCall& call, std::size_t first,
                         const Extents& result, std::size_t channel_axis);

/// Each returns null if the call's first node is not one of its ops.
using PreparedResult = Result<std::unique_ptr<PreparedCall>>;
PreparedResult onednn_matmul(const NodeCall& call);
PreparedResult onednn_attention(const NodeCall& call);
PreparedResult onednn_convolution(const NodeCall& call);
PreparedResult onednn_deconvolution(const NodeCall& call);
PreparedResult onednn_pooling(const NodeCall& call);
PreparedResult onednn_softmax(const NodeCall& call);
PreparedResult onednn_layer_norm(const NodeCall& call);
PreparedResult onednn_batch_norm(const NodeCall& call);
PreparedResult onednn_reduction(const NodeCall& call);
PreparedResult onednn_pointwise(const NodeCall& call);
PreparedResult onednn_transpose(const NodeCall& call);
PreparedResult onednn_concat(const NodeCall& call);

}  // namespace lathe::vendor
