#include "baseline/naive/emitters.h"

namespace lathe::naive {
namespace {

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

/// One slice an item, in strips whose sums are local.
LoopNest add_by_slice(const Site& site) {
  const std::string width = factor(site.out.count(1, site.out.rank()));
  const std::string at = "item * " + width + " + strip + k";
  return {site.out.shape[0], expand(R"(
for (int64_t strip = 0; strip < $width; strip += 64) {
  const int64_t end = $width - strip < 64 ? $width - strip : 64;
  $type sums[64] = {}, parts[64] = {};
  int64_t terms = 0;
  for (int64_t i = 0; i < $n; ++i) {
    if ($index != item) continue;
    for (int64_t k = 0; k < end; ++k) parts[k] += $x;
    if (++terms % $part == 0)
      for (int64_t k = 0; k < end; ++k) sums[k] += parts[k], parts[k] = 0;
  }
  for (int64_t k = 0; k < end; ++k) $out = $base + (sums[k] + parts[k]);
}
)",
                                    {{"width", width},
                                     {"type", site.out.compute_type()},
                                     {"n", site.in[1].count().to_string()},
                                     {"index", site.in[1].at("i")},
                                     {"x", site.in[2].at("i * " + width + " + strip + k")},
                                     {"part", std::to_string(kSerialTerms)},
                                     {"out", site.out.at(at)},
                                     {"base", site.in[0].at(at)}})};
}

}  // namespace

LoopNest emit_scatter_add(const Site& site) {
  return site.many_items ? add_by_element(site) : add_by_slice(site);
}

LoopNest emit_bincount(const Site& site) {
  return {site.out.count(), expand(R"(
$type count = 0;
for (int64_t i = 0; i < $n; ++i) count += $index == item;
$out = count;
)",
                                   {{"type", site.out.compute_type()},
                                    {"n", site.in[0].count().to_string()},
                                    {"index", site.in[0].at("i")},
                                    {"out", site.out.at("item")}})};
}

}  // namespace lathe::naive
