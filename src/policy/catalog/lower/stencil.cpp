#include <algorithm>

#include "policy/catalog/lower/lowering.h"

namespace lathe::catalog {
namespace {

/// Attribute values of one or two axes; the first of two is 1 (or `absent`) where the op has only
/// one.
std::array<std::int64_t, 2> pair_of(const Lowering& to, std::string_view name, int axes,
                                    std::vector<std::int64_t> fallback, std::int64_t absent) {
  std::vector<std::int64_t> given = to.attrs().integers(name, std::move(fallback));
  if (axes == 1) return {absent, given[0]};
  return {given[0], given.size() > 1 ? given[1] : given[0]};
}

/// [N, C, W] as [N, C, 1, W].
std::string as_plane(Lowering& to, const std::string& value, int axes) {
  if (axes == 2) return value;
  std::vector<Expr> shape = to.shape(value);
  shape.insert(shape.begin() + 2, Expr::constant(1));
  return to.view(value, shape);
}

SymbolicType plane_type(const NodeDecl& node, int axes) {
  SymbolicType type = node.type;
  if (axes == 1) type.shape.insert(type.shape.begin() + 2, Expr::constant(1));
  return type;
}

bool lower_convolution(Lowering& to, int axes, bool transposed) {
  const NodeDecl& node = to.node();
  const auto groups = to.expression("groups", 1);
  if (!groups.ok()) return false;
  Primitive conv{.kind = Kind::kConvolve, .out = {}, .in = {}, .type = plane_type(node, axes)};
  conv.window.stride = pair_of(to, "stride", axes, {1}, 1);
  conv.window.padding = pair_of(to, "padding", axes, {0}, 0);
  conv.window.dilation = pair_of(to, "dilation", axes, {1}, 1);
  conv.window.groups = *groups;
  conv.window.transposed = transposed;
  conv.in = {as_plane(to, node.in[0], axes), as_plane(to, node.in[1], axes)};
  const bool bias = node.in.size() > 2;
  std::string y = to.add(conv, !bias && axes == 2);
  if (bias) {
    const Expr one = Expr::constant(1);
    y = to.apply("{0} + {1}", {y, to.view(node.in[2], {to.shape(node.in[2])[0], one, one})}, axes == 2);
  }
  if (axes == 1) to.view(y, node.type.shape, true);
  return true;
}

bool lower_pool(Lowering& to, int axes, bool largest) {
  const NodeDecl& node = to.node();
  const std::vector<std::int64_t> kernel = node.attrs.integers("kernel", {1});
  Primitive pool{.kind = Kind::kPool, .out = {}, .in = {}, .type = plane_type(node, axes)};
  pool.how = largest ? "max" : "mean";
  pool.window.kernel = pair_of(to, "kernel", axes, kernel, 1);
  pool.window.stride = pair_of(to, "stride", axes, kernel, 1);
  pool.window.padding = pair_of(to, "padding", axes, {0}, 0);
  pool.window.count_padding = node.attrs.flag("count_padding", true);
  pool.in = {as_plane(to, node.in[0], axes)};
  const std::string y = to.add(pool, axes == 2);
  if (axes == 1) to.view(y, node.type.shape, true);
  return true;
}

}  // namespace

bool lower_stencil(Lowering& to) {
  const std::string& op = to.node().op_name;
  for (const int axes : {1, 2}) {
    const std::string suffix = std::to_string(axes) + "d";
    if (op == "conv" + suffix) return lower_convolution(to, axes, false);
    if (op == "conv_transpose" + suffix) return lower_convolution(to, axes, true);
    if (op == "max_pool" + suffix || op == "avg_pool" + suffix)
      return lower_pool(to, axes, op.starts_with("max"));
  }
  return false;
}

}  // namespace lathe::catalog
