#include "baseline/naive/emitters.h"

namespace lathe::naive {

namespace {

/// The keys that a query of a causal attention sees; the last query sees all.
constexpr std::string_view kVisible = R"(
const int64_t hidden = $L - 1 - item % $L;
const int64_t visible = hidden < $S ? $S - hidden : 0;
)";

constexpr std::string_view kAttention = R"(
float* row = work + item * $S;
const int64_t base = item / $L * $S;
$visible
const float scale = $scale;
for (int64_t j = 0; j < visible; ++j) {
  float sum = 0;
  for (int64_t k = 0; k < $D; ++k) sum += $query * $key;
  row[j] = sum * scale;
}
float peak = row[0];
for (int64_t j = 1; j < visible; ++j) peak = row[j] > peak ? row[j] : peak;
float sum = 0;
$add_exponentials
for (int64_t i = 0; i < $E; ++i) $out = 0;
for (int64_t j = 0; j < visible; ++j) {
  const float left = row[j] / sum;
  for (int64_t i = 0; i < $E; ++i) $out += left * $mixed;
}
)";

}  // namespace

/// One query an item; its scores lie in the item's row of `work`.
LoopNest emit_attention(const Site& site) {
  const Operand& q = site.in[0];
  const Operand& v = site.in[2];
  const std::string depth = q.extent(-1);
  const std::string scale = site.attrs.has("scale") ? literal(site.attrs.real("scale", 1))
                                                    : "1 / lathe::sqrt(static_cast<float>(" + depth + "))";
  const Expr keys = v.shape[v.shape.size() - 2];
  const bool causal = site.attrs.flag("causal", false);
  const std::string visible = causal ? expand(kVisible, {{"L", q.extent(-2)}, {"S", factor(keys)}})
                                     : "const int64_t visible = " + keys.to_string() + ";\n";
  const Expr items = q.count(0, q.rank() - 1);
  return {items,
          expand(kAttention,
                 {{"add_exponentials", sum_loop(site, "j", Expr::symbol("visible"), keys,
                                                "row[j] = lathe::exp(row[j] - peak);\nsum += row[j];\n")},
                  {"S", factor(keys)},
                  {"L", q.extent(-2)},
                  {"D", depth},
                  {"E", v.extent(-1)},
                  {"visible", visible},
                  {"scale", scale},
                  {"query", q.at("item * " + depth + " + k")},
                  {"key", site.in[1].at("(base + j) * " + depth + " + k")},
                  {"mixed", v.at("(base + j) * " + v.extent(-1) + " + i")},
                  {"out", site.out.at("item * " + v.extent(-1) + " + i")}}),
          items * keys};
}

}  // namespace lathe::naive
