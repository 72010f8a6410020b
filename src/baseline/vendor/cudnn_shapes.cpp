#include "baseline/vendor/cudnn_shapes.h"

#include <algorithm>
#include <limits>

namespace lathe::vendor {
namespace {

bool starts_with(const Node& node, std::string_view prefix) {
  return std::string_view(node.op).starts_with(prefix);
}

Ints narrow(const Extents& extents) { return {extents.begin(), extents.end()}; }

/// Treats a line as a plane of height 1, because cuDNN's windows have at least two axes.
Ints spatial(const Extents& shape) {
  Ints extents = narrow(shape);
  if (extents.size() == 3) extents.insert(extents.begin() + 2, 1);
  return extents;
}

Ints window(const Node& node, const char* name, std::int64_t fallback, int filler) {
  Ints list = narrow(per_axis(node, name, node.out.shape.size() - 2, fallback));
  if (list.size() == 1) list.insert(list.begin(), filler);
  return list;
}

Status check_operand(const Operand& operand) {
  if (operand.dtype != "fp32") return invalid("the cuDNN adapter computes in fp32, not in " + operand.dtype);
  if (count(operand.shape) > std::numeric_limits<int>::max())
    return invalid("cuDNN's tensors have less than 2^31 elements");
  return Ok{};
}

/// The buffer that `node` adds to the channels of the node before it, or -1.
int channel_bias(const Node& node, int previous) {
  if (node.op != "bias_add" || node.in[0].node != previous) return -1;
  const auto rank = static_cast<std::int64_t>(node.out.shape.size());
  const std::int64_t axis = node.attrs.value("axis", std::int64_t{-1});
  return (axis < 0 ? axis + rank : axis) == 1 ? node.in[1].buffer : -1;
}

Result<CudnnShape> convolution(const NodeCall& call) {
  const Node& node = call.nodes[0];
  ConvolutionShape shape;
  shape.transposed = starts_with(node, "conv_transpose");
  shape.x = spatial(node.in[0].shape);
  shape.weights = spatial(node.in[1].shape);
  shape.y = spatial(node.out.shape);
  shape.stride = window(node, "stride", 1, 1);
  shape.padding = window(node, "padding", 0, 0);
  shape.dilation = window(node, "dilation", 1, 1);
  shape.groups = static_cast<int>(node.attrs.value("groups", std::int64_t{1}));
  if (node.in.size() > 2) shape.bias = node.in[2].buffer;
  std::size_t next = 1;
  if (shape.bias < 0 && !shape.transposed && next < call.nodes.size()) {
    shape.bias = channel_bias(call.nodes[next], 0);
    if (shape.bias >= 0) ++next;
  }
  if (shape.bias >= 0 && !shape.transposed && next < call.nodes.size()) {
    shape.relu = call.nodes[next].op == "relu" && call.nodes[next].in[0].node == static_cast<int>(next) - 1;
    if (shape.relu) ++next;
  }
  if (next != call.nodes.size())
    return invalid("cuDNN fuses a bias of the channels, then relu to a convolution, not '" +
                   call.nodes[next].op + "'");
  return CudnnShape(shape);
}

Result<CudnnShape> pooling(const Node& node) {
  const Ints dilation = window(node, "dilation", 1, 1);
  if (std::ranges::any_of(dilation, [](int step) { return step != 1; }))
    return invalid("cuDNN has no dilated pools");
  PoolingShape shape;
  shape.x = spatial(node.in[0].shape);
  shape.y = spatial(node.out.shape);
  shape.kernel = window(node, "kernel", 1, 1);
  shape.stride = node.attrs.contains("stride") ? window(node, "stride", 1, 1) : shape.kernel;
  shape.padding = window(node, "padding", 0, 0);
  shape.maximum = starts_with(node, "max_pool");
  shape.count_padding = node.attrs.value("count_padding", true);
  return CudnnShape(shape);
}

CudnnShape softmax(const Node& node) {
  const Extents& extents = node.out.shape;
  std::int64_t axis = node.attrs.value("axis", std::int64_t{-1});
  if (axis < 0) axis += static_cast<std::int64_t>(extents.size());
  const auto at = extents.begin() + static_cast<std::ptrdiff_t>(axis);
  return SoftmaxShape{narrow({count({extents.begin(), at}), *at, count({at + 1, extents.end()}), 1}),
                      node.op == "log_softmax"};
}

CudnnShape batch_norm(const Node& node) {
  const Extents& extents = node.out.shape;
  return NormShape{narrow({extents[0], extents[1], count({extents.begin() + 2, extents.end()}), 1}),
                   node.attrs.value("eps", 1e-5)};
}

}  // namespace

Result<CudnnShape> cudnn_shape(const NodeCall& call) {
  for (const Node& node : call.nodes) {
    for (const Operand& operand : node.in) LATHE_CHECK_OK(check_operand(operand));
    LATHE_CHECK_OK(check_operand(node.out));
  }
  const Node& node = call.nodes[0];
  if (starts_with(node, "conv")) return convolution(call);
  if (call.nodes.size() > 1) return invalid("cuDNN fuses nothing to " + node.op);
  if (starts_with(node, "max_pool") || starts_with(node, "avg_pool")) return pooling(node);
  if (node.op == "softmax" || node.op == "log_softmax") return softmax(node);
  if (node.op == "batch_norm") return batch_norm(node);
  return invalid("the cuDNN adapter has no '" + node.op + "'",
                 "it has convolutions, pools, softmax, log_softmax and batch_norm");
}

}  // namespace lathe::vendor
