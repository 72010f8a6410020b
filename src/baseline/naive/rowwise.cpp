#include "baseline/naive/nest.h"

namespace lathe::naive {
namespace {

/// What every body may name: $x and $y at element i, the length, and the types.
Fields line_fields(const Site& site, const Lines& lines) {
  return {{"begin", lines.begin},
          {"n", lines.length.to_string()},
          {"x0", site.in[0].at(lines.at("0"))},
          {"x", site.in[0].at(lines.at("i"))},
          {"y", site.out.at(lines.at("i"))},
          {"type", site.out.compute_type()}};
}

}  // namespace

LoopNest emit_softmax(const Site& site) {
  const std::size_t axis = axis_of(site, "axis", -1, site.out.rank());
  const Lines lines = lines_along(site.out, axis, axis);
  return {lines.count, fill(R"($begin$type peak = $x0;
for (int64_t i = 1; i < $n; ++i) peak = $x > peak ? $x : peak;
$type sum = 0;
for (int64_t i = 0; i < $n; ++i) {
$y = lathe::exp($x - peak);
sum += $y;
}
for (int64_t i = 0; i < $n; ++i) $y = $y / sum;
)",
                            line_fields(site, lines))};
}

LoopNest emit_layer_norm(const Site& site) {
  const std::size_t axis = axis_of(site, "axis", -1, site.out.rank());
  const Lines lines = lines_along(site.out, axis, static_cast<std::size_t>(site.out.rank() - 1));
  Fields fields = line_fields(site, lines);
  fields.emplace_back("eps", literal(site.attrs.real("eps", 1e-5)));
  fields.emplace_back("gamma", site.in.size() > 1 ? " * " + site.in[1].at("i") : "");
  fields.emplace_back("beta", site.in.size() > 2 ? " + " + site.in[2].at("i") : "");
  return {lines.count, fill(R"($begin$type sum = 0;
for (int64_t i = 0; i < $n; ++i) sum += $x;
const $type mean = sum / $n;
sum = 0;
for (int64_t i = 0; i < $n; ++i) sum += ($x - mean) * ($x - mean);
const $type scale = 1 / lathe::sqrt(sum / $n + $eps);
for (int64_t i = 0; i < $n; ++i) $y = ($x - mean) * scale$gamma$beta;
)",
                            fields)};
}

}  // namespace lathe::naive
