#include "baseline/naive/emitters.h"

namespace lathe::naive {
namespace {

/// Columns that an item takes: neighbours lie in one line of the cache, threads of a GPU side by
/// side.
int strip_of(const Site& site) { return site.many_items ? 1 : 16; }

}  // namespace

/// An item takes some columns of all slices, so that none meets another's.
LoopNest emit_scatter(const Site& site) {
  const Expr width = site.out.count(1, site.out.rank());
  const int strip = strip_of(site);
  return {Expr::apply("cdiv", width, Expr::constant(strip)),
          expand(R"(
const int64_t begin_column = item * $strip;
const int64_t end_column = begin_column + $strip < $width ? begin_column + $strip : $width;
for (int64_t i = 0; i < $rows; ++i)
  for (int64_t j = begin_column; j < end_column; ++j) $kept = $base;
for (int64_t i = 0; i < $items; ++i) {
  const int64_t place = $index;
  for (int64_t j = begin_column; j < end_column; ++j) $moved = $x;
}
)",
                 {{"strip", std::to_string(strip)},
                  {"width", factor(width)},
                  {"rows", site.out.extent(0)},
                  {"items", site.in[1].extent(0)},
                  {"index", site.in[1].at("i")},
                  {"kept", site.out.at("i * " + factor(width) + " + j")},
                  {"base", site.in[0].at("i * " + factor(width) + " + j")},
                  {"moved", site.out.at("place * " + factor(width) + " + j")},
                  {"x", site.in[2].at("i * " + factor(width) + " + j")}})};
}

/// Some columns of one segment an item.
LoopNest emit_segment_sum(const Site& site) {
  const Expr width = site.out.count(1, site.out.rank());
  const int strip = strip_of(site);
  const Expr strips = Expr::apply("cdiv", width, Expr::constant(strip));
  return {site.out.shape[0] * strips,
          expand(R"(
const int64_t segment = item / $strips, first = item % $strips * $strip;
const int64_t columns = $width - first < $strip ? $width - first : $strip;
const int64_t begin_row = $begin, end_row = $end;
$type sums[$strip] = {}, parts[$strip] = {};
int64_t terms = 0;
for (int64_t i = begin_row; i < end_row; ++i) {
  for (int64_t k = 0; k < columns; ++k) parts[k] += $x;
  if (++terms % $part == 0)
    for (int64_t k = 0; k < columns; ++k) sums[k] += parts[k], parts[k] = 0;
}
for (int64_t k = 0; k < columns; ++k) $out = sums[k] + parts[k];
)",
                 {{"strips", factor(strips)},
                  {"strip", std::to_string(strip)},
                  {"width", factor(width)},
                  {"begin", site.in[1].at("segment")},
                  {"end", site.in[1].at("segment + 1")},
                  {"type", site.out.compute_type()},
                  {"part", std::to_string(kSerialTerms)},
                  {"x", site.in[0].at("i * " + factor(width) + " + first + k")},
                  {"out", site.out.at("segment * " + factor(width) + " + first + k")}})};
}

/// Some columns of one segment an item.
LoopNest emit_segment_extremum(const Site& site) {
  const Expr width = site.out.count(1, site.out.rank());
  const int strip = strip_of(site);
  const Expr strips = Expr::apply("cdiv", width, Expr::constant(strip));
  return {site.out.shape[0] * strips,
          expand(R"(
const int64_t segment = item / $strips, first = item % $strips * $strip;
const int64_t columns = $width - first < $strip ? $width - first : $strip;
const int64_t begin_row = $begin, end_row = $end;
for (int64_t k = 0; k < columns; ++k) {
  $type best = 0;
  for (int64_t i = begin_row; i < end_row; ++i) {
    const $type value = $x;
    if (i == begin_row || value $beats best || value != value) best = value;
  }
  $out = static_cast<$stored>(best);
}
)",
                 {{"strips", factor(strips)},
                  {"strip", std::to_string(strip)},
                  {"width", factor(width)},
                  {"begin", site.in[1].at("segment")},
                  {"end", site.in[1].at("segment + 1")},
                  {"beats", site.op.name().ends_with("max") ? ">" : "<"},
                  {"type", site.out.compute_type()},
                  {"stored", site.out.c_type()},
                  {"x", site.in[0].at("i * " + factor(width) + " + first + k")},
                  {"out", site.out.at("segment * " + factor(width) + " + first + k")}})};
}

/// An item takes some columns of all slices, so that none meets another's.
LoopNest emit_scatter_extremum(const Site& site) {
  const Expr width = site.out.count(1, site.out.rank());
  const int strip = strip_of(site);
  return {Expr::apply("cdiv", width, Expr::constant(strip)),
          expand(R"(
const int64_t begin_column = item * $strip;
const int64_t end_column = begin_column + $strip < $width ? begin_column + $strip : $width;
for (int64_t i = 0; i < $rows; ++i)
  for (int64_t j = begin_column; j < end_column; ++j) $kept = $base;
for (int64_t i = 0; i < $items; ++i) {
  const int64_t place = $index;
  if (place < 0 || place >= $rows) continue;
  for (int64_t j = begin_column; j < end_column; ++j) {
    const $type value = $x, best = $there;
    if (value $beats best || value != value) $there = $x;
  }
}
)",
                 {{"strip", std::to_string(strip)},
                  {"width", factor(width)},
                  {"rows", site.out.extent(0)},
                  {"items", factor(site.in[1].count())},
                  {"index", site.in[1].at("i")},
                  {"beats", site.op.name().ends_with("max") ? ">" : "<"},
                  {"type", site.out.compute_type()},
                  {"kept", site.out.at("i * " + factor(width) + " + j")},
                  {"base", site.in[0].at("i * " + factor(width) + " + j")},
                  {"there", site.out.at("place * " + factor(width) + " + j")},
                  {"x", site.in[2].at("i * " + factor(width) + " + j")}})};
}

}  // namespace lathe::naive
