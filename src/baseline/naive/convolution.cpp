#include "baseline/naive/emitters.h"

namespace lathe::naive {
namespace {

/// A window over the last axes of a tensor [N, C, ...]; its geometry is fixed, its extents are
/// expressions.
struct Window {
  std::size_t axes;
  std::vector<std::int64_t> stride, padding, dilation;
  std::vector<Expr> kernel;

  /// The names of a coordinate of each axis: positions 'o', taps 't', sources 's'.
  std::vector<std::string> names(char kind) const {
    std::vector<std::string> list;
    for (std::size_t axis = 0; axis < axes; ++axis)
      list.push_back(std::string(1, kind) + std::to_string(axis));
    return list;
  }
};

Window window_of(const Site& site, std::vector<Expr> kernel) {
  const std::size_t axes = kernel.size();
  return {axes, site.integers("stride", axes, 1), site.integers("padding", axes, 0),
          site.integers("dilation", axes, 1), std::move(kernel)};
}

std::string scaled(const std::string& name, std::int64_t factor) {
  return factor == 1 ? name : name + " * " + std::to_string(factor);
}

/// Loops over the taps of one window position around `body`, which sees the coordinates s0, s1, ...
/// inside [0, extents). Taps that fall outside are skipped.
std::string tap_loops(const Window& window, const std::vector<Expr>& extents, std::string body) {
  for (std::size_t axis = window.axes; axis-- > 0;) {
    const std::string source = scaled("o" + std::to_string(axis), window.stride[axis]) + " + " +
                               scaled("t" + std::to_string(axis), window.dilation[axis]) + " - " +
                               std::to_string(window.padding[axis]);
    body = loop(
        "t" + std::to_string(axis), window.kernel[axis],
        expand("const int64_t $s = $source;\nif ($s < 0 || $s >= $extent) continue;\n",
               {{"s", "s" + std::to_string(axis)}, {"source", source}, {"extent", factor(extents[axis])}}) +
            body);
  }
  return body;
}

/// The transposed convolution's taps: those whose coordinate divides by the stride.
std::string adjoint_tap_loops(const Window& window, const std::vector<Expr>& extents, std::string body) {
  for (std::size_t axis = window.axes; axis-- > 0;) {
    const std::string number = std::to_string(axis);
    body = loop("t" + number, window.kernel[axis],
                expand(R"(
const int64_t r$axis = o$axis + $padding - $tap;
if (r$axis < 0 || r$axis % $stride != 0 || r$axis / $stride >= $extent) continue;
const int64_t s$axis = r$axis / $stride;
)",
                       {{"axis", number},
                        {"padding", std::to_string(window.padding[axis])},
                        {"tap", scaled("t" + number, window.dilation[axis])},
                        {"stride", std::to_string(window.stride[axis])},
                        {"extent", factor(extents[axis])}}) +
                    body);
  }
  return body;
}

/// One plane of the result an item, or one element where items are cheap; `body` stores it.
LoopNest over_positions(const Site& site, const std::string& body) {
  const Operand& out = site.out;
  std::vector<std::string> names = {"i0", "i1"};
  for (std::size_t axis = 2; axis < out.shape.size(); ++axis) names.push_back("o" + std::to_string(axis - 2));
  if (site.many_items) return {out.count(), unflatten("item", out.shape, names) + body};
  std::string code = body;
  for (std::size_t axis = out.shape.size(); axis-- > 2;) code = loop(names[axis], out.shape[axis], code);
  return {out.shape[0] * out.shape[1], unflatten("item", {out.shape[0], out.shape[1]}, {"i0", "i1"}) + code};
}

std::vector<Expr> spatial(const Operand& operand) { return {operand.shape.begin() + 2, operand.shape.end()}; }

std::string element(const Operand& operand, const std::string& first, const std::string& second,
                    const std::vector<std::string>& rest) {
  std::vector<std::string> indices{first, second};
  indices.insert(indices.end(), rest.begin(), rest.end());
  return operand.at(position(operand.shape, indices));
}

/// The number of taps of a window inside the padded extents.
std::string padded_taps(const Window& window, const std::vector<Expr>& extents) {
  std::string taps;
  for (std::size_t axis = 0; axis < window.axes; ++axis) {
    const Expr behind = extents[axis] + Expr::constant(2 * window.padding[axis]);
    taps += std::string(taps.empty() ? "(" : " * ") + "min(int64_t{" + window.kernel[axis].to_string() +
            "}, " + factor(behind) + " - " + scaled("o" + std::to_string(axis), window.stride[axis]) + ")";
  }
  return taps + ")";
}

Expr taps_of(const Window& window) {
  Expr taps = Expr::constant(1);
  for (const Expr& extent : window.kernel) taps = taps * extent;
  return taps;
}

using TapLoops = std::string (*)(const Window&, const std::vector<Expr>& extents, std::string body);

/// What is common to both convolutions: a sum over channels and taps of `product`.
LoopNest convolution(const Site& site, const Window& window, const Expr& channels, TapLoops taps,
                     const std::string& product) {
  const Operand& out = site.out;
  const Parts parts = parts_of(site, channels * taps_of(window));
  const std::string channel_loop =
      parts.before +
      loop("k", channels, taps(window, spatial(site.in[0]), "sum += " + product + ";\n" + parts.step)) +
      parts.behind;
  const std::string start = site.in.size() > 2 ? site.in[2].at("i1") : "0";
  const std::string body = expand("$type sum = $start;\n$channels\n$out = sum;\n",
                                  {{"type", out.compute_type()},
                                   {"start", start},
                                   {"channels", channel_loop},
                                   {"out", element(out, "i0", "i1", window.names('o'))}});
  return over_positions(site, body);
}

}  // namespace

LoopNest emit_conv(const Site& site) {
  const Operand& x = site.in[0];
  const Operand& weight = site.in[1];
  const Window window = window_of(site, spatial(weight));
  const Expr groups = site.expression("groups", Expr::constant(1));
  const std::string channel =
      is_one(groups) ? "k"
                     : "(i1 / " + factor(site.out.shape[1] / groups) + " * " + weight.extent(1) + " + k)";
  const std::string product =
      element(x, "i0", channel, window.names('s')) + " * " + element(weight, "i1", "k", window.names('t'));
  return convolution(site, window, weight.shape[1], tap_loops, product);
}

LoopNest emit_conv_transpose(const Site& site) {
  const Operand& x = site.in[0];
  const Operand& weight = site.in[1];
  const Window window = window_of(site, spatial(weight));
  const Expr groups = site.expression("groups", Expr::constant(1));
  const Expr channels = x.shape[1] / groups;
  const bool grouped = !is_one(groups);
  const std::string channel =
      grouped ? "(i1 / " + weight.extent(1) + " * " + factor(channels) + " + k)" : "k";
  const std::string output = grouped ? "i1 % " + weight.extent(1) : "i1";
  const std::string product = element(x, "i0", channel, window.names('s')) + " * " +
                              element(weight, channel, output, window.names('t'));
  return convolution(site, window, channels, adjoint_tap_loops, product);
}

LoopNest emit_pool(const Site& site) {
  const Operand& x = site.in[0];
  const Operand& out = site.out;
  std::vector<Expr> kernel;
  for (const std::int64_t extent : site.integers("kernel", x.shape.size() - 2, 1))
    kernel.push_back(Expr::constant(extent));
  Window window = window_of(site, kernel);
  if (!site.attrs.has("stride")) window.stride = site.integers("kernel", kernel.size(), 1);
  const std::string value = element(x, "i0", "i1", window.names('s'));
  const bool is_max = site.op.name().starts_with("max");
  const bool counts = !is_max && !site.attrs.flag("count_padding", true);
  const bool clipped = !is_max && !counts && site.attrs.flag("ceil_mode", false);
  std::string step = is_max ? "sum = $x > sum || $x != $x ? $x : sum;\n" : "sum += $x;\n";
  if (counts) step += "++k;\n";
  const Parts parts = is_max ? Parts{} : parts_of(site, taps_of(window));
  const std::string add_taps =
      parts.before + tap_loops(window, spatial(x), expand(step, {{"x", value}}) + parts.step) + parts.behind;
  const std::string body = expand("$type sum = $start;\n$counter\n$taps\n$out = $finish;\n",
                                  {{"type", out.compute_type()},
                                   {"start", is_max ? "-__builtin_inff()" : "0"},
                                   {"counter", counts ? "int64_t k = 0;" : ""},
                                   {"taps", add_taps},
                                   {"out", element(out, "i0", "i1", window.names('o'))},
                                   {"finish", is_max    ? "sum"
                                              : counts  ? "sum / k"
                                              : clipped ? "sum / " + padded_taps(window, spatial(x))
                                                        : "sum / " + taps_of(window).to_string()}});
  return over_positions(site, body);
}

namespace {

Window plane_window(const Site& site) {
  std::vector<Expr> kernel;
  for (const std::int64_t extent : site.integers("kernel", 2, 1)) kernel.push_back(Expr::constant(extent));
  return window_of(site, kernel);
}

/// How often the window fits along each axis of a plane.
std::vector<Expr> positions_of(const Window& window, const std::vector<Expr>& extents) {
  std::vector<Expr> positions;
  for (std::size_t axis = 0; axis < window.axes; ++axis) {
    const auto number = [](std::int64_t value) { return Expr::constant(value); };
    const Expr reach = number(window.dilation[axis]) * (window.kernel[axis] - number(1)) + number(1);
    positions.push_back(
        (extents[axis] + number(2 * window.padding[axis]) - reach + number(window.stride[axis])) /
        number(window.stride[axis]));
  }
  return positions;
}

/// The columns' element of the plane, taps t0 and t1 and this position.
std::string column_of(const Operand& columns, const Window& window, const std::vector<Expr>& positions,
                      const std::string& plane, const std::string& position) {
  return columns.at(expand("((($plane) * $height + t0) * $width + t1) * $all + $position",
                           {{"plane", plane},
                            {"height", factor(window.kernel[0])},
                            {"width", factor(window.kernel[1])},
                            {"all", factor(positions[0] * positions[1])},
                            {"position", position}}));
}

}  // namespace

/// All positions of a tap an item, or one where items are cheap.
LoopNest emit_unfold(const Site& site) {
  const Operand& x = site.in[0];
  const Window window = plane_window(site);
  const std::vector<Expr> positions = positions_of(window, spatial(x));
  const auto source = [&](const std::string& axis, std::size_t number) {
    return scaled("o" + axis, window.stride[number]) + " + " + scaled("t" + axis, window.dilation[number]) +
           " - " + std::to_string(window.padding[number]);
  };
  const std::string body = expand(
      R"(
const int64_t s0 = $source_0, s1 = $source_1;
$type value = 0;
if (s0 >= 0 && s0 < $height && s1 >= 0 && s1 < $width) value = $x;
$out = value;
)",
      {{"source_0", source("0", 0)},
       {"source_1", source("1", 1)},
       {"height", x.extent(2)},
       {"width", x.extent(3)},
       {"type", site.out.compute_type()},
       {"x", x.at(expand("(plane * $height + s0) * $width + s1",
                         {{"height", x.extent(2)}, {"width", x.extent(3)}}))},
       {"out", column_of(site.out, window, positions, "plane", "o0 * " + factor(positions[1]) + " + o1")}});
  const Expr planes = x.shape[0] * x.shape[1];
  std::vector<Expr> shape = {planes, window.kernel[0], window.kernel[1]};
  std::vector<std::string> names = {"plane", "t0", "t1"};
  if (site.many_items) {
    shape.insert(shape.end(), positions.begin(), positions.end());
    names.insert(names.end(), {"o0", "o1"});
    return {site.out.count(), unflatten("item", shape, names) + body};
  }
  return {planes * taps_of(window),
          unflatten("item", shape, names) + loop("o0", positions[0], loop("o1", positions[1], body))};
}

LoopNest emit_fold(const Site& site) {
  const Window window = plane_window(site);
  const std::vector<Expr> positions = positions_of(window, spatial(site.out));
  const std::string column = column_of(site.in[0], window, positions, "i0 * " + site.out.extent(1) + " + i1",
                                       "s0 * " + factor(positions[1]) + " + s1");
  const Parts parts = parts_of(site, taps_of(window));
  const std::string taps = parts.before +
                           adjoint_tap_loops(window, positions, "sum += " + column + ";\n" + parts.step) +
                           parts.behind;
  return over_positions(site, expand("$type sum = 0;\n$taps\n$out = sum;\n",
                                     {{"type", site.out.compute_type()},
                                      {"taps", taps},
                                      {"out", element(site.out, "i0", "i1", window.names('o'))}}));
}

}  // namespace lathe::naive
