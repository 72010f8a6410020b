#include "baseline/naive/emitters.h"

namespace lathe::naive {
namespace {

/// Where an item's index leads, if that is within the result.
std::string find_place(const Operand& index, const std::string& places) {
  return expand("const int64_t place = $index;\nif (place < 0 || place >= $places) continue;\n",
                {{"index", index.at("i")}, {"places", places}});
}

/// A type that takes any number of terms. Whole numbers may wrap around.
std::string wide_type(const Site& site) {
  if (!info(site.out.dtype).is_float) return site.many_items ? "unsigned long long" : "int64_t";
  return site.out.dtype == DType::kF64 ? "long double" : "double";
}

/// What all of scatter_add's nests are made of.
Holes parts_of_sums(const Site& site) {
  return {
      {"sum", wide_type(site)},
      {"type", site.out.compute_type()},
      {"width", factor(site.out.count(1, site.out.rank()))},
      {"rows", site.out.extent(0)},
      {"n", site.in[1].count().to_string()},
      {"declare", expand("$sum* const sums = reinterpret_cast<$sum*>(work);\n", {{"sum", wide_type(site)}})},
      {"place", find_place(site.in[1], site.out.extent(0))}};
}

/// In fp32 elements.
Expr room_for_sums(const Site& site) {
  return Expr::constant(wide_type(site) == "long double" ? 4 : 2) * site.out.count();
}

/// A strip of columns an item: one item after the other is added to the rows' sums.
LoopNest add_by_strip(const Site& site) {
  const Holes parts = parts_of_sums(site);
  const Holes operands = {{"x", site.in[2].at(expand("i * $width + k", {}, parts))},
                          {"out", site.out.at("at")},
                          {"base", site.in[0].at("at")}};
  const Expr strips = Expr::apply("cdiv", site.out.count(1, site.out.rank()), Expr::constant(64));
  return {strips,
          expand(R"(
$declare
const int64_t strip = item * 64, end = $width - strip < 64 ? $width : strip + 64;
for (int64_t i = 0; i < $n; ++i) {
  $place
  for (int64_t k = strip; k < end; ++k) sums[place * $width + k] += static_cast<$type>($x);
}
for (int64_t row = 0; row < $rows; ++row)
  for (int64_t k = strip; k < end; ++k) {
    const int64_t at = row * $width + k;
    $out = $base + static_cast<$type>(sums[at]);
  }
)",
                 operands, parts),
          room_for_sums(site), true};
}

/// One element an item, all at once.
LoopNest add_at_once(const Site& site) {
  const Holes parts = parts_of_sums(site);
  const bool is_float = info(site.out.dtype).is_float;
  LoopNest nest{site.out.count(),
                expand(R"(
$declare
$out = $base + static_cast<$type>(sums[item]);
)",
                       {{"out", site.out.at("item")}, {"base", site.in[0].at("item")}}, parts),
                room_for_sums(site), true};
  nest.before.push_back(
      {site.in[2].count(),
       expand(R"(
$declare
const int64_t i = item / $width;
$place
atomicAdd(sums + place * $width + item % $width, static_cast<$sum>(static_cast<$term>($x)));
)",
              {{"x", site.in[2].at("item")}, {"term", is_float ? "float" : "int64_t"}}, parts)});
  return nest;
}

/// One element an item, which looks at every index.
LoopNest add_by_element(const Site& site) {
  const Expr width = site.out.count(1, site.out.rank());
  const std::string add =
      expand("if ($index == item / $width) sum += $x;\n",
             {{"index", site.in[1].at("i")},
              {"width", factor(width)},
              {"x", site.in[2].at("i * " + factor(width) + " + item % " + factor(width))}});
  return {site.out.count(), expand(R"(
$type sum = 0;
$loop
$out = $base + sum;
)",
                                   {{"type", site.out.compute_type()},
                                    {"loop", sum_loop(site, "i", site.in[1].count(), add)},
                                    {"out", site.out.at("item")},
                                    {"base", site.in[0].at("item")}})};
}

}  // namespace

LoopNest emit_scatter_add(const Site& site) {
  if (!site.many_items) return add_by_strip(site);
  return site.out.dtype == DType::kF64 ? add_by_element(site) : add_at_once(site);
}

LoopNest emit_bincount(const Site& site) {
  const Expr items = site.in[0].count();
  const Holes parts = {{"n", items.to_string()},
                       {"bins", site.out.count().to_string()},
                       {"place", find_place(site.in[0], factor(site.out.count()))},
                       {"count", site.out.at("place")}};
  if (!site.many_items)
    return {Expr::constant(1), expand(R"(
for (int64_t bin = 0; bin < $bins; ++bin) $zero = 0;
for (int64_t i = 0; i < $n; ++i) {
  $place
  $count += 1;
}
)",
                                      {{"zero", site.out.at("bin")}}, parts)};
  LoopNest nest{items, expand(R"(
const int64_t i = item;
$place
atomicAdd(&$count, 1);
)",
                              {}, parts)};
  nest.before.push_back({site.out.count(), expand("$zero = 0;\n", {{"zero", site.out.at("item")}})});
  return nest;
}

}  // namespace lathe::naive
