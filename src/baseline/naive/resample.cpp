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

}  // namespace lathe::naive
