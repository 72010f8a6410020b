#include "baseline/naive/emitters.h"

namespace lathe::naive {

namespace {

/// The keys of a sequence, of which the fourth input names the last.
constexpr std::string_view kKnown = R"(
const int64_t last = static_cast<int64_t>($last);
const int64_t known = last < 0 ? 0 : last < $S ? last + 1 : $S;
)";

/// The keys that a query of a causal attention sees; the last query sees all.
constexpr std::string_view kVisible = R"(
const int64_t hidden = $L - 1 - item % $L;
const int64_t visible = hidden < $known ? $known - hidden : 0;
)";

constexpr std::string_view kAttention = R"(
$type* row = reinterpret_cast<$type*>(work) + item * $S;
const int64_t base = $head * $S;
$visible
const $type scale = $scale;
for (int64_t j = 0; j < visible; ++j) {
  $type sum = 0;
  for (int64_t k = 0; k < $D; ++k) sum += $query * $key;
  row[j] = sum * scale;
}
$type peak = row[0];
for (int64_t j = 1; j < visible; ++j) peak = row[j] > peak ? row[j] : peak;
$type sum = 0;
$add_exponentials
$mix
)";

constexpr std::string_view kMix = R"(
for (int64_t j = 0; j < $E; ++j) $out = 0;
for (int64_t k = 0; k < visible; ++k) {
  const $type left = row[k] / sum;
  for (int64_t j = 0; j < $E; ++j) $out += left * $mixed;
}
)";

/// The head of the keys that the item reads; neighbouring heads may share one.
std::string key_head(const Operand& q, const Operand& k) {
  const std::string head = "item / " + q.extent(-2);
  if (q.rank() < 3 || q.extent(-3) == k.extent(-3)) return head;
  const Expr sharing = q.shape[q.shape.size() - 3] / k.shape[k.shape.size() - 3];
  return "(" + head + " / " + q.extent(-3) + " * " + k.extent(-3) + " + " + head + " % " + q.extent(-3) +
         " / " + factor(sharing) + ")";
}

}  // namespace

/// One query an item; its scores lie in the item's row of `work`.
LoopNest emit_attention(const Site& site) {
  const Operand& q = site.in[0];
  const Operand& v = site.in[2];
  const std::string depth = q.extent(-1);
  const std::string type = site.out.compute_type();
  const std::string scale = site.attrs.has("scale")
                                ? literal(site.attrs.real("scale", 1))
                                : "1 / lathe::sqrt(static_cast<" + type + ">(" + depth + "))";
  const Expr keys = v.shape[v.shape.size() - 2];
  const bool causal = site.attrs.flag("causal", false), named = site.in.size() > 3;
  const std::string known = named ? "known" : factor(keys);
  std::string visible;
  if (named) {
    const Expr rows = q.count(q.rank() - 3, q.rank() - 1);
    visible = expand(kKnown, {{"last", site.in[3].at("item / " + factor(rows))}, {"S", factor(keys)}});
  }
  visible += causal ? expand(kVisible, {{"L", q.extent(-2)}, {"known", known}})
                    : "const int64_t visible = " + known + ";\n";
  const std::string add = "row[j] = lathe::exp(row[j] - peak);\nsum += row[j];\n";
  const Expr seen = Expr::symbol("visible");
  const Expr items = q.count(0, q.rank() - 1);
  const std::string mixed = v.at("(base + k) * " + v.extent(-1) + " + j");
  const std::string out = site.out.at("item * " + v.extent(-1) + " + j");
  const bool long_sums = needs_parts(site, keys);
  const bool accumulates_in_place = type == site.out.c_type();
  const std::string mix =
      long_sums || !accumulates_in_place
          ? in_parts({.type = type,
                      .columns = v.extent(-1),
                      .depth = "visible",
                      .left = "row[k] / sum",
                      .right = mixed,
                      .out = out},
                     256)
          : expand(kMix, {{"type", type}, {"E", v.extent(-1)}, {"mixed", mixed}, {"out", out}});
  return {items,
          expand(kAttention,
                 {{"type", type},
                  {"add_exponentials", long_sums ? sum_in_parts("j", seen, add) : loop("j", seen, add)},
                  {"mix", mix},
                  {"S", factor(keys)},
                  {"head", key_head(q, site.in[1])},
                  {"D", depth},
                  {"visible", visible},
                  {"scale", scale},
                  {"query", q.at("item * " + depth + " + k")},
                  {"key", site.in[1].at("(base + j) * " + depth + " + k")}}),
          items * keys * Expr::constant(type == "double" ? 2 : 1)};
}

}  // namespace lathe::naive
