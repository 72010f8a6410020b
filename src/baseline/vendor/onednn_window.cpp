#include "baseline/vendor/onednn.h"

namespace lathe::vendor {
namespace {

/// oneDNN counts dilation from 0. Padding is symmetric; a remainder that does not fill a stride is
/// dropped by a convolution and corresponds to its adjoint's output_padding.
struct Geometry {
  Extents stride, dilation, padding;

  Geometry(const Node& node, std::size_t axes)
      : stride(per_axis(node, "stride", axes, 1)),
        dilation(per_axis(node, "dilation", axes, 1)),
        padding(per_axis(node, "padding", axes, 0)) {
    for (std::int64_t& step : dilation) step -= 1;
  }
};

bool starts_with(const Node& node, std::string_view prefix) {
  return std::string_view(node.op).starts_with(prefix);
}

/// Weights [first, second, kernel...] of `groups` groups as [groups, first / groups, second,
/// kernel...], or with the two channel axes exchanged.
Desc grouped_weights(Type type, const Extents& stored, std::int64_t groups, bool exchange) {
  Extents dims = stored;
  Extents strides = row_major_strides(stored);
  if (groups > 1) {
    dims[0] /= groups;
    dims.insert(dims.begin(), groups);
    strides.insert(strides.begin(), dims[1] * strides[0]);
  }
  const std::size_t first = groups > 1 ? 1 : 0;
  if (exchange) {
    std::swap(dims[first], dims[first + 1]);
    std::swap(strides[first], strides[first + 1]);
  }
  return {dims, type, strides};
}

/// The node's own bias, or the next node if it adds one over the channels.
const Operand* channel_bias(const NodeCall& call, std::size_t& next) {
  const Node& node = call.nodes[0];
  next = 1;
  if (node.in.size() > 2) return &node.in[2];
  if (call.nodes.size() < 2 || binary_of(call.nodes[1]) != dnnl::algorithm::binary_add) return nullptr;
  for (const Operand& operand : call.nodes[1].in) {
    Extents channel(node.out.shape.size(), 1);
    channel[1] = node.out.shape[1];
    if (operand.buffer < 0 || aligned_extents(call.nodes[1], operand) != channel) continue;
    next = 2;
    return &operand;
  }
  return nullptr;
}

/// A convolution or its adjoint. The primitive chooses its layouts; inputs and the result are
/// row-major and reordered within the call.
template <class Primitive>
PreparedResult convolution(const NodeCall& call, dnnl::algorithm algorithm, const Desc& weights,
                           const Geometry& g) {
  OnednnBuilder builder(call);
  const Node& node = call.nodes[0];
  std::size_t next = 1;
  const Operand* bias = channel_bias(call, next);
  LATHE_TRY(PostOps post, post_ops(builder, call, next, node.out.shape, 1));
  const Desc x = builder.any(node.in[0].shape);
  const Desc w = builder.any(weights.dims());
  const Desc y = builder.any(node.out.shape);
  const Desc b = bias ? builder.plain({node.out.shape[1]}) : Desc();
  const typename Primitive::desc what(kInference, algorithm, x, w, b, y, g.stride, g.dilation, g.padding,
                                      g.padding);
  const typename Primitive::primitive_desc made(what, post.attr, builder.engine());
  const dnnl::memory result = builder.caller(call.nodes.back().out, builder.plain(node.out.shape));
  const bool plain_result = made.dst_desc() == result.get_desc();
  const dnnl::memory written = plain_result ? result : builder.own(made.dst_desc());
  ExecArgs args = std::move(post.args);
  args.emplace_back(DNNL_ARG_SRC, builder.to_layout(builder.caller(node.in[0]), made.src_desc()));
  args.emplace_back(DNNL_ARG_WEIGHTS,
                    builder.to_layout(builder.caller(node.in[1], weights), made.weights_desc()));
  args.emplace_back(DNNL_ARG_DST, written);
  if (bias) args.emplace_back(DNNL_ARG_BIAS, builder.caller(*bias, b));
  builder.add(made, std::move(args));
  if (!plain_result) builder.reorder(written, result);
  return builder.finish();
}

}  // namespace

PreparedResult onednn_convolution(const NodeCall& call) {
  const Node& node = call.nodes[0];
  if (!starts_with(node, "conv") || starts_with(node, "conv_")) return std::unique_ptr<PreparedCall>();
  const std::int64_t groups = node.attrs.value("groups", std::int64_t{1});
  const Desc weights = grouped_weights(type_of(call), node.in[1].shape, groups, false);
  const Geometry geometry(node, node.out.shape.size() - 2);
  return convolution<dnnl::convolution_forward>(call, dnnl::algorithm::convolution_auto, weights, geometry);
}

/// Weights are stored [inputs, outputs / groups, kernel...]; oneDNN expects outputs first.
PreparedResult onednn_deconvolution(const NodeCall& call) {
  const Node& node = call.nodes[0];
  if (!starts_with(node, "conv_transpose")) return std::unique_ptr<PreparedCall>();
  const std::int64_t groups = node.attrs.value("groups", std::int64_t{1});
  const Desc weights = grouped_weights(type_of(call), node.in[1].shape, groups, true);
  const Geometry geometry(node, node.out.shape.size() - 2);
  return convolution<dnnl::deconvolution_forward>(call, dnnl::algorithm::deconvolution_direct, weights,
                                                  geometry);
}

PreparedResult onednn_pooling(const NodeCall& call) {
  const Node& node = call.nodes[0];
  const bool is_max = starts_with(node, "max_pool");
  if (!is_max && !starts_with(node, "avg_pool")) return std::unique_ptr<PreparedCall>();
  if (call.nodes.size() != 1) return invalid("oneDNN fuses nothing to pooling");
  OnednnBuilder builder(call);
  const Extents kernel = per_axis(node, "kernel", node.out.shape.size() - 2, 1);
  Geometry g(node, kernel.size());
  if (!node.attrs.contains("stride")) g.stride = kernel;
  const auto algorithm = is_max ? dnnl::algorithm::pooling_max
                         : node.attrs.value("count_padding", true)
                             ? dnnl::algorithm::pooling_avg_include_padding
                             : dnnl::algorithm::pooling_avg_exclude_padding;
  const Desc from = builder.plain(node.in[0].shape);
  const Desc to = builder.plain(node.out.shape);
  const dnnl::pooling_v2_forward::desc what(kInference, algorithm, from, to, g.stride, kernel, g.dilation,
                                            g.padding, g.padding);
  builder.add(dnnl::pooling_v2_forward::primitive_desc(what, builder.attributes(), builder.engine()),
              {{DNNL_ARG_SRC, builder.caller(node.in[0])}, {DNNL_ARG_DST, builder.caller(node.out)}});
  return builder.finish();
}

}  // namespace lathe::vendor
