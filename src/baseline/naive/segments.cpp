#include "baseline/naive/emitters.h"

namespace lathe::naive {
namespace {

/// Columns that an item takes: neighbours lie in one line of the cache, threads of a GPU side by
/// side.
int strip_of(const Site& site) { return site.many_items ? 1 : 16; }

/// Of an extremum: what a value that replaces the best is, beside it.
std::string beats(const Site& site) { return site.op.name().ends_with("max") ? ">" : "<"; }

/// An item takes some columns of all slices, so that none meets another's. `move` is what becomes
/// of slice i of x, whose place is `place`.
LoopNest scatter_nest(const Site& site, std::string_view move) {
  const Expr width = site.out.count(1, site.out.rank());
  const std::string strip = std::to_string(strip_of(site));
  const Holes fields = {{"strip", strip},
                        {"width", factor(width)},
                        {"rows", site.out.extent(0)},
                        {"items", factor(site.in[1].count())},
                        {"index", site.in[1].at("i")},
                        {"beats", beats(site)},
                        {"type", site.out.compute_type()},
                        {"kept", site.out.at("i * " + factor(width) + " + j")},
                        {"base", site.in[0].at("i * " + factor(width) + " + j")},
                        {"there", site.out.at("place * " + factor(width) + " + j")},
                        {"x", site.in[2].at("i * " + factor(width) + " + j")}};
  return {Expr::apply("cdiv", width, Expr::constant(strip_of(site))),
          expand(R"(
const int64_t begin_column = item * $strip;
const int64_t end_column = begin_column + $strip < $width ? begin_column + $strip : $width;
for (int64_t i = 0; i < $rows; ++i)
  for (int64_t j = begin_column; j < end_column; ++j) $kept = $base;
for (int64_t i = 0; i < $items; ++i) {
  const int64_t place = $index;
  $move
}
)",
                 {{"move", expand(move, {}, fields)}}, fields)};
}

/// Some columns of one segment an item. `reduce` makes one result of each column.
LoopNest segment_nest(const Site& site, std::string_view reduce) {
  const Expr width = site.out.count(1, site.out.rank());
  const Expr strips = Expr::apply("cdiv", width, Expr::constant(strip_of(site)));
  const Holes fields = {{"strips", factor(strips)},
                        {"strip", std::to_string(strip_of(site))},
                        {"width", factor(width)},
                        {"begin", site.in[1].at("segment")},
                        {"end", site.in[1].at("segment + 1")},
                        {"beats", beats(site)},
                        {"type", site.out.compute_type()},
                        {"stored", site.out.c_type()},
                        {"part", std::to_string(kSerialTerms)},
                        {"x", site.in[0].at("i * " + factor(width) + " + first + k")},
                        {"out", site.out.at("segment * " + factor(width) + " + first + k")}};
  return {site.out.shape[0] * strips, expand(R"(
const int64_t segment = item / $strips, first = item % $strips * $strip;
const int64_t columns = $width - first < $strip ? $width - first : $strip;
const int64_t begin_row = $begin, end_row = $end;
$reduce
)",
                                             {{"reduce", expand(reduce, {}, fields)}}, fields)};
}

}  // namespace

LoopNest emit_scatter(const Site& site) {
  return scatter_nest(site, "for (int64_t j = begin_column; j < end_column; ++j) $there = $x;");
}

LoopNest emit_scatter_extremum(const Site& site) {
  return scatter_nest(site, R"(
if (place < 0 || place >= $rows) continue;
for (int64_t j = begin_column; j < end_column; ++j) {
  const $type value = $x, best = $there;
  if (value $beats best || value != value) $there = $x;
}
)");
}

LoopNest emit_segment_sum(const Site& site) {
  return segment_nest(site, R"(
$type sums[$strip] = {}, parts[$strip] = {};
int64_t terms = 0;
for (int64_t i = begin_row; i < end_row; ++i) {
  for (int64_t k = 0; k < columns; ++k) parts[k] += $x;
  if (++terms % $part == 0)
    for (int64_t k = 0; k < columns; ++k) sums[k] += parts[k], parts[k] = 0;
}
for (int64_t k = 0; k < columns; ++k) $out = sums[k] + parts[k];
)");
}

LoopNest emit_segment_extremum(const Site& site) {
  return segment_nest(site, R"(
for (int64_t k = 0; k < columns; ++k) {
  $type best = 0;
  for (int64_t i = begin_row; i < end_row; ++i) {
    const $type value = $x;
    if (i == begin_row || value $beats best || value != value) best = value;
  }
  $out = static_cast<$stored>(best);
}
)");
}

}  // namespace lathe::naive
