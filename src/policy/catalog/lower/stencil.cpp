#include <algorithm>

#include "policy/catalog/lower/lowering.h"

namespace lathe::catalog {
namespace {

constexpr std::int64_t kMostTaps = 4096;

/// Attribute values of the last `axes` of three axes; those before them are `absent`.
std::array<std::int64_t, 3> per_axis(const Lowering& to, std::string_view name, int axes,
                                     std::vector<std::int64_t> fallback, std::int64_t absent) {
  const std::vector<std::int64_t> given = to.attrs().integers(name, std::move(fallback));
  std::array<std::int64_t, 3> values{absent, absent, absent};
  const auto count = static_cast<std::size_t>(axes);
  for (std::size_t i = 0; i < count; ++i) values[3 - count + i] = given[given.size() > 1 ? i : 0];
  return values;
}

/// [N, C, W] as [N, C, 1, W].
std::string as_plane(Lowering& to, const std::string& value, int axes) {
  if (axes > 1) return value;
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
  conv.window.stride = per_axis(to, "stride", axes, {1}, 1);
  conv.window.padding = per_axis(to, "padding", axes, {0}, 0);
  conv.window.dilation = per_axis(to, "dilation", axes, {1}, 1);
  conv.window.groups = *groups;
  conv.window.transposed = transposed;
  conv.in = {as_plane(to, node.in[0], axes), as_plane(to, node.in[1], axes)};
  const bool bias = node.in.size() > 2;
  std::string y = to.add(conv, !bias && axes > 1);
  if (bias) {
    std::vector<Expr> channels = to.shape(node.in[2]);
    channels.resize(axes == 3 ? 4 : 3, Expr::constant(1));
    y = to.apply("{0} + {1}", {y, to.view(node.in[2], channels)}, axes > 1);
  }
  if (axes == 1) to.view(y, node.type.shape, true);
  return true;
}

/// Windows are boxes: a pool over height and width, in which depth counts as channels, then one
/// over depth, in which the pooled planes are rows. One whose windows are single elements is left
/// out.
void lower_volume_pool(Lowering& to, const Window& window, const std::string& how) {
  const NodeDecl& node = to.node();
  const std::vector<Expr> x = to.shape(node.in[0]);
  const std::vector<Expr>& y = node.type.shape;
  const auto moves = [&](std::size_t axis) { return window.kernel[axis] > 1 || window.stride[axis] > 1; };
  const auto pool = [&](const std::string& from, std::vector<Expr> shape, std::vector<Expr> result) {
    Primitive step{.kind = Kind::kPool, .out = {}, .in = {}, .type = {DType::kF32, std::move(result)}};
    step.how = how;
    step.window.count_padding = window.count_padding;
    step.window.rounded_up = window.rounded_up;
    step.in = {to.view(from, std::move(shape))};
    return step;
  };
  std::string pooled = node.in[0];
  if (moves(1) || moves(2) || !moves(0)) {
    Primitive planes = pool(pooled, {x[0], x[1] * x[2], x[3], x[4]}, {x[0], x[1] * x[2], y[3], y[4]});
    for (const std::size_t axis : {1, 2}) {
      planes.window.kernel[axis] = window.kernel[axis];
      planes.window.stride[axis] = window.stride[axis];
      planes.window.padding[axis] = window.padding[axis];
      planes.window.dilation[axis] = window.dilation[axis];
    }
    pooled = to.add(planes);
  }
  if (moves(0)) {
    const Expr area = y[3] * y[4];
    Primitive depth = pool(pooled, {x[0], x[1], x[2], area}, {x[0], x[1], y[2], area});
    depth.window.kernel[1] = window.kernel[0];
    depth.window.stride[1] = window.stride[0];
    depth.window.padding[1] = window.padding[0];
    depth.window.dilation[1] = window.dilation[0];
    pooled = to.add(depth);
  }
  to.view(pooled, y, true);
}

void lower_window(Lowering& to, const Window& window, int axes, const std::string& how) {
  const NodeDecl& node = to.node();
  if (axes == 3) return lower_volume_pool(to, window, how);
  Primitive pool{.kind = Kind::kPool, .out = {}, .in = {}, .type = plane_type(node, axes)};
  pool.how = how;
  pool.window = window;
  pool.in = {as_plane(to, node.in[0], axes)};
  const std::string y = to.add(pool, axes == 2);
  if (axes == 1) to.view(y, node.type.shape, true);
}

/// The columns of an image, or the image of columns, of which a fold adds no more to an element
/// than a running sum may have.
bool lower_columns(Lowering& to, bool fold) {
  const NodeDecl& node = to.node();
  Primitive columns{.kind = fold ? Kind::kWindows : Kind::kMove,
                    .out = {},
                    .in = node.in,
                    .type = node.type,
                    .how = node.op_name,
                    .axes = {3}};
  if (!fold) columns.axes = {2};
  columns.window.kernel = per_axis(to, "kernel", 2, {1}, 1);
  columns.window.stride = per_axis(to, "stride", 2, {1}, 1);
  columns.window.padding = per_axis(to, "padding", 2, {0}, 0);
  columns.window.dilation = per_axis(to, "dilation", 2, {1}, 1);
  if (fold && columns.window.kernel[1] * columns.window.kernel[2] > kMostTaps) return false;
  to.add(columns, true);
  return true;
}

void lower_pool(Lowering& to, int axes, bool largest) {
  const NodeDecl& node = to.node();
  const std::vector<std::int64_t> kernel = node.attrs.integers("kernel", {1});
  Window window;
  window.kernel = per_axis(to, "kernel", axes, kernel, 1);
  window.stride = per_axis(to, "stride", axes, kernel, 1);
  window.padding = per_axis(to, "padding", axes, {0}, 0);
  window.dilation = per_axis(to, "dilation", axes, {1}, 1);
  window.count_padding = node.attrs.flag("count_padding", true);
  window.rounded_up = node.attrs.flag("ceil_mode", false);
  lower_window(to, window, axes, largest ? "max" : "mean");
}

/// The number by which one extent is the other's multiple at every shape, as far as their texts
/// tell; 0 if they do not.
std::int64_t multiple(const Lowering& to, const Expr& larger, const Expr& smaller) {
  const std::int64_t of = headline(to.graph(), smaller), times = headline(to.graph(), larger) / of;
  if (times < 1 || times * of != headline(to.graph(), larger)) return 0;
  if (larger.is_constant() && smaller.is_constant()) return times;
  const Expr factor = Expr::constant(times);
  for (const Expr& same : {smaller, factor * smaller, smaller * factor})
    if (equal(larger, same) && (times == 1 || !equal(same, smaller))) return times;
  return 0;
}

/// One axis after the other, in this order. A mean over a box is one of means, for its rows are as
/// long as each other.
void lower_windows(Lowering& to, const std::string& how, const std::vector<int>& order) {
  const std::vector<Expr>& y = to.node().type.shape;
  std::string value = to.node().in[0];
  std::vector<int> axes;
  for (const int axis : order)
    if (!equal(to.shape(value)[static_cast<std::size_t>(axis)], y[static_cast<std::size_t>(axis)]))
      axes.push_back(axis);
  for (const int axis : axes) {
    std::vector<Expr> shape = to.shape(value);
    shape[static_cast<std::size_t>(axis)] = y[static_cast<std::size_t>(axis)];
    value = to.add({.kind = Kind::kWindows,
                    .out = {},
                    .in = {value},
                    .type = {to.type(value).dtype, std::move(shape)},
                    .how = how,
                    .axes = {axis}},
                   axis == axes.back());
  }
}

/// Windows of one size are a pool's; those of whole axes a reduction's.
bool lower_adaptive_pool(Lowering& to, int axes, bool largest) {
  const NodeDecl& node = to.node();
  const std::vector<Expr>& x = to.shape(node.in[0]);
  const std::vector<Expr>& y = node.type.shape;
  std::vector<int> planes;
  Window window;
  bool whole = true, even = true;
  for (int i = 0; i < axes; ++i) {
    const auto axis = static_cast<std::size_t>(i) + 2;
    if (!equal(x[axis], y[axis])) planes.push_back(i + 2);
    whole = whole && (is_one(y[axis]) || equal(x[axis], y[axis]));
    const std::int64_t each = multiple(to, x[axis], y[axis]);
    even = even && each > 0;
    window.kernel[static_cast<std::size_t>(3 - axes + i)] =
        window.stride[static_cast<std::size_t>(3 - axes + i)] = std::max<std::int64_t>(1, each);
  }
  if (whole && largest) return to.reduce("max", node.in[0], planes, true, true), true;
  if (whole) {
    std::vector<Expr> counted;
    for (const int axis : planes) counted.push_back(x[static_cast<std::size_t>(axis)]);
    const std::string sum = to.reduce("sum", node.in[0], planes, true);
    return to.apply("{0} * " + Lowering::reciprocal_count(counted), {sum}, true), true;
  }
  const std::string how = largest ? "max" : "mean";
  even ? lower_window(to, window, axes, how) : lower_windows(to, how, planes);
  return true;
}

/// Whole multiples repeat each element; others take the first of its window, along rows while these
/// are few.
void lower_nearest(Lowering& to) {
  const NodeDecl& node = to.node();
  const std::vector<Expr> x = to.shape(node.in[0]);
  std::vector<Expr> lone(x.begin(), x.begin() + 2), repeated = lone;
  for (std::size_t axis = 2; axis < x.size(); ++axis) {
    const std::int64_t times = multiple(to, node.type.shape[axis], x[axis]);
    if (times == 0) {
      std::vector<int> order;
      for (int back = static_cast<int>(x.size()) - 1; back > 1; --back) order.push_back(back);
      return lower_windows(to, "first", order);
    }
    lone.push_back(x[axis]);
    repeated.push_back(x[axis]);
    if (times == 1) continue;
    lone.push_back(Expr::constant(1));
    repeated.push_back(Expr::constant(times));
  }
  to.view(to.spread(to.view(node.in[0], lone), repeated), node.type.shape, true);
}

}  // namespace

bool lower_stencil(Lowering& to) {
  const std::string& op = to.node().op_name;
  if (op == "upsample_linear1d" || op == "upsample_bilinear2d" || op == "upsample_trilinear3d") {
    to.add({.kind = Kind::kResample,
            .out = {},
            .in = to.node().in,
            .type = {},
            .how = to.attrs().flag("align_corners", false) ? "corners" : "pixels"},
           true);
    return true;
  }
  if (op == "unfold" || op == "fold") return lower_columns(to, op == "fold");
  for (const int axes : {1, 2, 3}) {
    const std::string suffix = std::to_string(axes) + "d";
    if (op == "conv" + suffix) return lower_convolution(to, axes, false);
    if (op == "conv_transpose" + suffix) return lower_convolution(to, axes, true);
    if (op == "max_pool" + suffix || op == "avg_pool" + suffix)
      return lower_pool(to, axes, op.starts_with("max")), true;
    if (op == "adaptive_avg_pool" + suffix || op == "adaptive_max_pool" + suffix)
      return lower_adaptive_pool(to, axes, op.starts_with("adaptive_max"));
    if (op == "upsample_nearest" + suffix) return lower_nearest(to), true;
  }
  return false;
}

}  // namespace lathe::catalog
