#pragma once

#include <dnnl.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "baseline/vendor/node_call.h"

namespace lathe::vendor {

dnnl::memory::desc plain_desc(const Extents& shape);
/// Row-major memory of `stored` extents seen with its last two axes swapped.
dnnl::memory::desc transposed_desc(const Extents& stored);

/// Collects the primitives of one call with their memory. All memory that oneDNN itself would take at
/// execution (scratchpads) is made here.
class OnednnBuilder {
 public:
  OnednnBuilder();
  ~OnednnBuilder();

  /// The caller's buffer, seen through `desc`.
  dnnl::memory caller(const Operand& operand, const dnnl::memory::desc& desc);
  dnnl::memory caller(const Operand& operand) { return caller(operand, plain_desc(operand.shape)); }
  /// Memory that lives in the call.
  dnnl::memory own(const dnnl::memory::desc& desc);
  /// `memory` itself if it has the layout already, else a copy that each execution reorders.
  dnnl::memory to_layout(const dnnl::memory& memory, const dnnl::memory::desc& desc);
  void reorder(const dnnl::memory& from, const dnnl::memory& to);
  /// Appends a primitive whose attributes came from `attributes()`.
  template <class PrimitiveDesc>
  void add(const PrimitiveDesc& desc, std::vector<std::pair<int, dnnl::memory>> args) {
    args.emplace_back(DNNL_ARG_SCRATCHPAD, own(desc.scratchpad_desc()));
    append(dnnl::primitive(desc.get()), std::move(args));
  }

  static dnnl::primitive_attr attributes();
  const dnnl::engine& engine() const { return engine_; }
  std::unique_ptr<PreparedCall> finish();

 private:
  class Call;
  void append(dnnl::primitive primitive, std::vector<std::pair<int, dnnl::memory>> args);

  dnnl::engine engine_;
  std::unique_ptr<Call> call_;
};

struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha = 0;
  float beta = 0;
};
std::optional<Eltwise> eltwise_of(const Node& node);

/// What follows a call's first primitive: its attributes, and the tensors that these read.
struct PostOps {
  dnnl::primitive_attr attr = OnednnBuilder::attributes();
  std::vector<std::pair<int, dnnl::memory>> args;
};

/// The nodes from `first` on as post-operations: activations, and sums or products with a tensor of the
/// result's shape or with one value for each index of `channel_axis`. `result` are the primitive's own
/// extents.
Result<PostOps> post_ops(OnednnBuilder& builder, const NodeCall& call, std::size_t first,
                         const Extents& result, std::size_t channel_axis);

/// Each returns null when the call's first node is none of its ops.
Result<std::unique_ptr<PreparedCall>> onednn_matmul(const NodeCall& call);
Result<std::unique_ptr<PreparedCall>> onednn_convolution(const NodeCall& call);
Result<std::unique_ptr<PreparedCall>> onednn_normalization(const NodeCall& call);
Result<std::unique_ptr<PreparedCall>> onednn_pooling(const NodeCall& call);
Result<std::unique_ptr<PreparedCall>> onednn_pointwise(const NodeCall& call);

}  // namespace lathe::vendor
