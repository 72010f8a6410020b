#include <map>
#include <numeric>

#include "baseline/vendor/onednn.h"

namespace lathe::vendor {
namespace {

std::size_t axis_of(const Node& node, std::int64_t fallback) {
  const std::int64_t axis = node.attrs.value("axis", fallback);
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(node.in[0].shape.size())
                                           : axis);
}

/// A single primitive, to which nothing is fused.
Status check_alone(const NodeCall& call) {
  if (call.nodes.size() == 1) return Ok{};
  return invalid("oneDNN fuses nothing to op '" + call.nodes[0].op + "'");
}

/// At least two axes: with one, fused binaries of oneDNN 2.6 read outside their operand.
Extents pointwise_extents(Extents shape) {
  while (shape.size() < 2) shape.insert(shape.begin(), 1);
  return shape;
}

PreparedResult eltwise_alone(const NodeCall& call, const Eltwise& eltwise) {
  LATHE_CHECK_OK(check_alone(call));
  OnednnBuilder builder(call);
  const Node& node = call.nodes[0];
  const Desc desc = builder.plain(pointwise_extents(node.out.shape));
  const dnnl::eltwise_forward::desc what(kInference, eltwise.algorithm, desc, eltwise.alpha, eltwise.beta);
  builder.add(
      dnnl::eltwise_forward::primitive_desc(what, builder.attributes(), builder.engine()),
      {{DNNL_ARG_SRC, builder.caller(node.in[0], desc)}, {DNNL_ARG_DST, builder.caller(node.out, desc)}});
  return builder.finish();
}

PreparedResult binary_chain(const NodeCall& call, dnnl::algorithm algorithm) {
  OnednnBuilder builder(call);
  const Node& node = call.nodes[0];
  const Operand* first = &node.in[0];
  const Operand* second = &node.in[1];
  const bool commutes = algorithm != dnnl::algorithm::binary_sub && algorithm != dnnl::algorithm::binary_div;
  if (aligned_extents(node, *first) != node.out.shape && commutes) std::swap(first, second);
  if (aligned_extents(node, *first) != node.out.shape)
    return invalid("oneDNN stretches only the second operand of op '" + node.op + "'");
  const Desc a = builder.plain(pointwise_extents(node.out.shape));
  const Desc b = builder.plain(pointwise_extents(aligned_extents(node, *second)));
  LATHE_TRY(PostOps post, post_ops(builder, call, 1, a.dims(), a.dims().size() - 1));
  ExecArgs args = std::move(post.args);
  args.emplace_back(DNNL_ARG_SRC_0, builder.caller(*first, a));
  args.emplace_back(DNNL_ARG_SRC_1, builder.caller(*second, b));
  args.emplace_back(DNNL_ARG_DST, builder.caller(call.nodes.back().out, a));
  builder.add(dnnl::binary::primitive_desc({algorithm, a, b, a}, post.attr, builder.engine()),
              std::move(args));
  return builder.finish();
}

}  // namespace

PreparedResult onednn_pointwise(const NodeCall& call) {
  const Node& node = call.nodes[0];
  if (const auto eltwise = eltwise_of(node)) return eltwise_alone(call, *eltwise);
  if (const auto algorithm = binary_of(node)) return binary_chain(call, *algorithm);
  return std::unique_ptr<PreparedCall>();
}

PreparedResult onednn_softmax(const NodeCall& call) {
  const Node& node = call.nodes[0];
  if (node.op != "softmax") return std::unique_ptr<PreparedCall>();
  LATHE_CHECK_OK(check_alone(call));
  OnednnBuilder builder(call);
  const Desc desc = builder.plain(node.out.shape);
  const dnnl::softmax_v2_forward::desc what(kInference, dnnl::algorithm::softmax_accurate, desc, desc,
                                            static_cast<int>(axis_of(node, -1)));
  builder.add(dnnl::softmax_v2_forward::primitive_desc(what, builder.attributes(), builder.engine()),
              {{DNNL_ARG_SRC, builder.caller(node.in[0])}, {DNNL_ARG_DST, builder.caller(node.out)}});
  return builder.finish();
}

PreparedResult onednn_reduction(const NodeCall& call) {
  const Node& node = call.nodes[0];
  static const std::map<std::string, dnnl::algorithm, std::less<>> algorithms = {
      {"sum", dnnl::algorithm::reduction_sum},
      {"mean", dnnl::algorithm::reduction_mean},
      {"reduce_max", dnnl::algorithm::reduction_max},
      {"reduce_min", dnnl::algorithm::reduction_min}};
  const auto algorithm = algorithms.find(node.op);
  if (algorithm == algorithms.end()) return std::unique_ptr<PreparedCall>();
  LATHE_CHECK_OK(check_alone(call));
  const Extents& shape = node.in[0].shape;
  Extents kept = shape;
  Extents axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (node.attrs.contains("axis")) axes = {node.attrs.at("axis").get<std::int64_t>()};
  if (node.attrs.contains("axes")) {
    const auto& list = node.attrs.at("axes");
    axes = list.is_array() ? list.get<Extents>() : Extents{list.get<std::int64_t>()};
  }
  for (std::int64_t axis : axes)
    kept[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis)] = 1;
  OnednnBuilder builder(call);
  const Desc from = builder.plain(shape);
  const Desc to = builder.plain(kept);
  if (kept == shape) {  // oneDNN refuses a reduction over extents of 1
    builder.reorder(builder.caller(node.in[0]), builder.caller(node.out, to));
    return builder.finish();
  }
  const dnnl::reduction::desc what(algorithm->second, from, to, 0, 0);
  builder.add(dnnl::reduction::primitive_desc(what, builder.attributes(), builder.engine()),
              {{DNNL_ARG_SRC, builder.caller(node.in[0])}, {DNNL_ARG_DST, builder.caller(node.out, to)}});
  return builder.finish();
}

/// A reorder from a permuted view of the input.
PreparedResult onednn_transpose(const NodeCall& call) {
  const Node& node = call.nodes[0];
  if (node.op != "transpose") return std::unique_ptr<PreparedCall>();
  LATHE_CHECK_OK(check_alone(call));
  const std::size_t rank = node.out.shape.size();
  Extents perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[rank - 1], perm[rank - 2]);
  if (node.attrs.contains("perm")) perm = node.attrs.at("perm").get<Extents>();
  const Extents from = row_major_strides(node.in[0].shape);
  Extents strides;
  for (std::int64_t axis : perm)
    strides.push_back(
        from[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis)]);
  OnednnBuilder builder(call);
  const Desc seen(node.out.shape, type_of(call), strides);
  builder.reorder(builder.caller(node.in[0], seen), builder.caller(node.out));
  return builder.finish();
}

PreparedResult onednn_concat(const NodeCall& call) {
  const Node& node = call.nodes[0];
  if (node.op != "concat") return std::unique_ptr<PreparedCall>();
  LATHE_CHECK_OK(check_alone(call));
  OnednnBuilder builder(call);
  std::vector<Desc> sources;
  ExecArgs args;
  for (const Operand& operand : node.in) {
    sources.push_back(builder.plain(operand.shape));
    args.emplace_back(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(args.size()), builder.caller(operand));
  }
  args.emplace_back(DNNL_ARG_DST, builder.caller(node.out));
  builder.add(dnnl::concat::primitive_desc(builder.plain(node.out.shape), static_cast<int>(axis_of(node, -1)),
                                           sources, builder.engine(), builder.attributes()),
              std::move(args));
  return builder.finish();
}

}  // namespace lathe::vendor
