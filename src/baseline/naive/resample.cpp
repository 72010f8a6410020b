#include "baseline/naive/emitters.h"

namespace lathe::naive {
namespace {

using Names = std::vector<std::string>;

/// One axis of x [N, C, ...] and the names of what belongs to it.
struct Axis {
  std::string index;  ///< of the result
  std::string in, out;
  std::string name(const std::string& what) const { return what + index; }
};

std::vector<Axis> axes_of(const Site& site, const Names& indices) {
  std::vector<Axis> axes;
  for (std::size_t i = 2; i < indices.size(); ++i)
    axes.push_back({indices[i], factor(site.in[0].shape[i]), factor(site.out.shape[i])});
  return axes;
}

/// One row of the result an item: `declare` says what an index needs, that of the row's elements
/// last.
template <class Declare>
LoopNest for_each_row(const Site& site, const Names& indices, const std::vector<Axis>& axes, Declare declare,
                      const std::string& body) {
  const Operand& out = site.out;
  const std::vector<Expr> outer(out.shape.begin(), out.shape.end() - 1);
  std::string code = unflatten("item", outer, {indices.begin(), indices.end() - 1});
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) code += declare(axes[i]);
  return {out.count(0, out.rank() - 1),
          code + loop(indices.back(), out.shape.back(), declare(axes.back()) + body)};
}

std::string element(const Site& site, const Names& indices, const std::vector<std::string>& places) {
  Names own(indices.begin(), indices.begin() + 2);
  own.insert(own.end(), places.begin(), places.end());
  return site.in[0].at(position(site.in[0].shape, own));
}

/// Half of the interpolation along each axis from `places.size()` on.
std::string interpolated(const Site& site, const Names& indices, const std::vector<Axis>& axes,
                         std::vector<std::string> places) {
  if (places.size() == axes.size()) return element(site, indices, places);
  const Axis& axis = axes[places.size()];
  places.push_back(axis.name("low_"));
  const std::string below = interpolated(site, indices, axes, places);
  places.back() = axis.name("high_");
  const std::string above = interpolated(site, indices, axes, places);
  const std::string weight = axis.name("weight_");
  return "((1 - " + weight + ") * " + below + " + " + weight + " * " + above + ")";
}

}  // namespace

LoopNest emit_adaptive_pool(const Site& site) {
  const Names indices = index_names(site.out.rank());
  const std::vector<Axis> axes = axes_of(site, indices);
  const bool is_max = site.op.name().find("max") != std::string_view::npos;
  const auto span = [](const Axis& axis) {
    return expand("const int64_t $begin = $i * $in / $out, $end = (($i + 1) * $in + $out - 1) / $out;\n",
                  {{"begin", axis.name("begin_")},
                   {"end", axis.name("end_")},
                   {"i", axis.index},
                   {"in", axis.in},
                   {"out", axis.out}});
  };
  Expr terms = Expr::constant(1);
  std::vector<std::string> places;
  std::string count;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    places.push_back(axes[i].name("at_"));
    count += (count.empty() ? "(" : " * (") + axes[i].name("end_") + " - " + axes[i].name("begin_") + ")";
    terms = terms * (Expr::apply("cdiv", site.in[0].shape[i + 2], site.out.shape[i + 2]) + Expr::constant(1));
  }
  const Parts parts = is_max ? Parts{} : parts_of(site, terms);
  std::string taps = expand(is_max ? "sum = $x > sum || $x != $x ? $x : sum;\n" : "sum += $x;\n",
                            {{"x", element(site, indices, places)}}) +
                     parts.step;
  for (std::size_t i = axes.size(); i-- > 0;)
    taps = expand("for (int64_t $at = $begin; $at < $end; ++$at) {\n  $taps\n}\n",
                  {{"at", places[i]},
                   {"begin", axes[i].name("begin_")},
                   {"end", axes[i].name("end_")},
                   {"taps", taps}});
  return for_each_row(site, indices, axes, span,
                      expand("$type sum = $start;\n$taps\n$to = $finish;\n",
                             {{"type", site.out.compute_type()},
                              {"start", is_max ? "-__builtin_inff()" : "0"},
                              {"taps", parts.before + taps + parts.behind},
                              {"to", site.out.at(position(site.out.shape, indices))},
                              {"finish", is_max ? "sum" : "sum / (" + count + ")"}}));
}

LoopNest emit_upsample_nearest(const Site& site) {
  const Names indices = index_names(site.out.rank());
  const std::vector<Axis> axes = axes_of(site, indices);
  std::vector<std::string> places;
  for (const Axis& axis : axes) places.push_back(axis.name("at_"));
  const auto source = [](const Axis& axis) {
    return "const int64_t " + axis.name("at_") + " = " + axis.index + " * " + axis.in + " / " + axis.out +
           ";\n";
  };
  return for_each_row(
      site, indices, axes, source,
      site.out.at(position(site.out.shape, indices)) + " = " + element(site, indices, places) + ";\n");
}

/// Places are fractions, which only the weights round.
LoopNest emit_upsample_linear(const Site& site) {
  const Names indices = index_names(site.out.rank());
  const std::vector<Axis> axes = axes_of(site, indices);
  const bool corners = site.attrs.flag("align_corners", false);
  const auto between = [&](const Axis& axis) {
    return expand(
        R"(
const int64_t $whole = $denominator;
const int64_t $part = $numerator;
const int64_t $low = $part > 0 ? $part / $whole : 0, $high = $low + 1 < $in ? $low + 1 : $in - 1;
const $type $weight = $part > 0 ? static_cast<$type>($part % $whole) / static_cast<$type>($whole) : 0;
)",
        {},
        {{"whole", axis.name("whole_")},
         {"part", axis.name("part_")},
         {"low", axis.name("low_")},
         {"high", axis.name("high_")},
         {"weight", axis.name("weight_")},
         {"type", site.out.compute_type()},
         {"in", axis.in},
         {"denominator", corners ? "(" + axis.out + " > 1 ? " + axis.out + " - 1 : 1)" : "2 * " + axis.out},
         {"numerator", corners ? axis.index + " * (" + axis.in + " - 1)"
                               : "(2 * " + axis.index + " + 1) * " + axis.in + " - " + axis.out}});
  };
  return for_each_row(
      site, indices, axes, between,
      site.out.at(position(site.out.shape, indices)) + " = " + interpolated(site, indices, axes, {}) + ";\n");
}

/// Places are fractions, which only the weights round.
LoopNest emit_upsample_bicubic(const Site& site) {
  const Names indices = index_names(site.out.rank());
  const std::vector<Axis> axes = axes_of(site, indices);
  const bool corners = site.attrs.flag("align_corners", false);
  const auto taps = [&](const Axis& axis) {
    return expand(
        R"(
const int64_t $whole = $denominator;
const int64_t $part = $numerator;
const int64_t $low = $part >= 0 ? $part / $whole : -1;
const $type $t = static_cast<$type>($part - $low * $whole) / static_cast<$type>($whole);
const $type $weight[4] = {outer(1 + $t), inner($t), inner(1 - $t), outer(2 - $t)};
)",
        {},
        {{"whole", axis.name("whole_")},
         {"part", axis.name("part_")},
         {"low", axis.name("low_")},
         {"t", axis.name("t_")},
         {"weight", axis.name("weight_")},
         {"type", site.out.compute_type()},
         {"denominator", corners ? "(" + axis.out + " > 1 ? " + axis.out + " - 1 : 1)" : "2 * " + axis.out},
         {"numerator", corners ? axis.index + " * (" + axis.in + " - 1)"
                               : "(2 * " + axis.index + " + 1) * " + axis.in + " - " + axis.out}});
  };
  const auto inside = [](const Axis& axis, const std::string& tap) {
    return expand("clamped($low - 1 + $tap, $in)",
                  {{"low", axis.name("low_")}, {"tap", tap}, {"in", axis.in}});
  };
  LoopNest nest =
      for_each_row(site, indices, axes, taps,
                   expand(R"(
$type sum = 0;
for (int a = 0; a < 4; ++a) {
  $type row = 0;
  for (int b = 0; b < 4; ++b) row += $across[b] * $x;
  sum += $down[a] * row;
}
$out = sum;
)",
                          {{"type", site.out.compute_type()},
                           {"down", axes[0].name("weight_")},
                           {"across", axes[1].name("weight_")},
                           {"x", element(site, indices, {inside(axes[0], "a"), inside(axes[1], "b")})},
                           {"out", site.out.at(position(site.out.shape, indices))}}));
  nest.body = expand(R"(
const auto inner = []($type x) -> $type { return ($type(1.25) * x - $type(2.25)) * x * x + 1; };
const auto outer = []($type x) -> $type { return (($type(3.75) - $type(0.75) * x) * x - 6) * x + 3; };
const auto clamped = [](int64_t i, int64_t n) -> int64_t { return i < 0 ? 0 : i < n ? i : n - 1; };
)",
                     {}, {{"type", site.out.compute_type()}}) +
              nest.body;
  return nest;
}

/// One row of the result an item. A place far outside is no number of elements.
LoopNest emit_grid_sample(const Site& site) {
  const Operand &x = site.in[0], &places = site.in[1], &out = site.out;
  const bool border = site.attrs.text("padding", "zeros") == "border";
  const bool nearest = site.attrs.text("mode", "bilinear") == "nearest";
  const std::string type = out.compute_type();
  const Holes fields = {
      {"type", type}, {"height", x.extent(2)}, {"width", x.extent(3)}, {"channels", x.extent(1)}};
  const auto coordinate = [&](const std::string& name, int axis, int which) {
    const std::string extent = x.extent(axis);
    std::string code =
        expand(site.attrs.flag("align_corners", false) ? "$type $name = ($place + 1) / 2 * ($extent - 1);\n"
                                                       : "$type $name = (($place + 1) * $extent - 1) / 2;\n",
               {{"type", type},
                {"name", name},
                {"extent", extent},
                {"place", places.at(position(places.shape, {"i0", "i2", "i3", std::to_string(which)}))}});
    code +=
        expand("$name = $name < $low ? $low : $name > $high ? $high : $name;\n",
               {{"name", name}, {"low", border ? "0" : "-2"}, {"high", extent + (border ? " - 1" : " + 1")}});
    return code;
  };
  const std::string read = expand(
      R"(
const auto at = [&](int64_t r, int64_t c) -> $type {
  $inside
  return $x;
};
)",
      {{"inside", expand(border ? "r = r < $height ? r : $height - 1, c = c < $width ? c : $width - 1;"
                                : "if (r < 0 || r >= $height || c < 0 || c >= $width) return 0;",
                         {}, fields)},
       {"x", x.at(position(x.shape, {"i0", "i1", "r", "c"}))}},
      fields);
  const std::string value = nearest ? R"(
$out = at(static_cast<int64_t>(lathe::round(row)), static_cast<int64_t>(lathe::round(column)));
)"
                                    : R"(
const int64_t r = static_cast<int64_t>(lathe::floor(row)), c = static_cast<int64_t>(lathe::floor(column));
const $type down = row - r, right = column - c;
$out = (1 - down) * ((1 - right) * at(r, c) + right * at(r, c + 1)) +
       down * ((1 - right) * at(r + 1, c) + right * at(r + 1, c + 1));
)";
  const std::vector<Expr> outer(out.shape.begin(), out.shape.end() - 1);
  return {
      out.count(0, 3),
      unflatten("item", outer, {"i0", "i1", "i2"}) +
          loop("i3", out.shape[3],
               coordinate("column", 3, 0) + coordinate("row", 2, 1) + read +
                   expand(value, {{"out", out.at(position(out.shape, {"i0", "i1", "i2", "i3"}))}}, fields))};
}

}  // namespace lathe::naive
