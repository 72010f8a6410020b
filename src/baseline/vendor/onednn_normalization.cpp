#include "baseline/vendor/onednn.h"

namespace lathe::vendor {
namespace {

using Flags = dnnl::normalization_flags;

}  // namespace

/// oneDNN normalises only the last axis, so the normalised axes are merged.
PreparedResult onednn_layer_norm(const NodeCall& call) {
  const Node& node = call.nodes[0];
  if (node.op != "layer_norm") return std::unique_ptr<PreparedCall>();
  if (call.nodes.size() != 1) return invalid("oneDNN fuses nothing to layer_norm");
  const Extents& shape = node.out.shape;
  const std::int64_t axis = node.attrs.value("axis", std::int64_t{-1});
  const auto first =
      static_cast<std::ptrdiff_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis);
  const std::int64_t length = count({shape.begin() + first, shape.end()});
  const Extents lines{count(shape) / length, length};
  OnednnBuilder builder(call);
  auto flags = Flags::none;
  const Desc desc = builder.plain(lines);
  const Desc vector = builder.plain({length});
  ExecArgs args = {{DNNL_ARG_SRC, builder.caller(node.in[0], desc)},
                   {DNNL_ARG_DST, builder.caller(node.out, desc)}};
  if (node.in.size() > 1) {
    flags = flags | Flags::use_scale;
    args.emplace_back(DNNL_ARG_SCALE, builder.caller(node.in[1], vector));
  }
  if (node.in.size() > 2) {
    flags = flags | Flags::use_shift;
    args.emplace_back(DNNL_ARG_SHIFT, builder.caller(node.in[2], vector));
  }
  const dnnl::layer_normalization_forward::desc what(dnnl::prop_kind::forward_inference, desc,
                                                     node.attrs.value("eps", 1e-5f), flags);
  builder.add(dnnl::layer_normalization_forward::primitive_desc(what, builder.attributes(), builder.engine()),
              std::move(args));
  return builder.finish();
}

/// Inputs x, gamma, beta, mean, var; a following relu is a flag of the primitive.
PreparedResult onednn_batch_norm(const NodeCall& call) {
  const Node& node = call.nodes[0];
  if (node.op != "batch_norm") return std::unique_ptr<PreparedCall>();
  const bool relu = call.nodes.size() == 2 && call.nodes[1].op == "relu";
  if (call.nodes.size() > 2 || (call.nodes.size() == 2 && !relu))
    return invalid("oneDNN fuses only relu to batch_norm");
  OnednnBuilder builder(call);
  Extents shape = node.out.shape;
  if (shape.size() == 2) shape.push_back(1);
  const Desc desc = builder.plain(shape);
  auto flags = Flags::use_global_stats | Flags::use_scale | Flags::use_shift;
  if (relu) flags = flags | Flags::fuse_norm_relu;
  const dnnl::batch_normalization_forward::desc what(dnnl::prop_kind::forward_inference, desc,
                                                     node.attrs.value("eps", 1e-5f), flags);
  builder.add(dnnl::batch_normalization_forward::primitive_desc(what, builder.attributes(), builder.engine()),
              {{DNNL_ARG_SRC, builder.caller(node.in[0], desc)},
               {DNNL_ARG_SCALE, builder.caller(node.in[1])},
               {DNNL_ARG_SHIFT, builder.caller(node.in[2])},
               {DNNL_ARG_MEAN, builder.caller(node.in[3])},
               {DNNL_ARG_VARIANCE, builder.caller(node.in[4])},
               {DNNL_ARG_DST, builder.caller(call.nodes.back().out, desc)}});
  return builder.finish();
}

}  // namespace lathe::vendor
