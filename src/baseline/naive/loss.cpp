#include <algorithm>
#include <array>

#include "baseline/naive/emitters.h"

namespace lathe::naive {
namespace {

/// One term of a mean over two tensors, v0 and v1, with a parameter $p.
struct Term {
  std::string_view op;
  std::string_view code;
  std::string_view parameter = {};
};

constexpr std::array kTerms = {
    Term{"mse_loss", "sum += (v0 - v1) * (v0 - v1);\n"},
    Term{"l1_loss", "sum += lathe::abs(v0 - v1);\n"},
    Term{"huber_loss",
         "const $type v2 = lathe::abs(v0 - v1);\n"
         "sum += v2 <= $p ? 0.5f * v2 * v2 : $p * (v2 - 0.5f * $p);\n",
         "delta"},
    Term{"smooth_l1_loss",
         "const $type v2 = lathe::abs(v0 - v1);\n"
         "sum += v2 <= $p ? 0.5f * v2 * v2 / $p : v2 - 0.5f * $p;\n",
         "beta"},
    Term{"hinge_loss", "sum += lathe::max(0.0f, 1.0f - v0 * v1);\n"},
    Term{"bce_with_logits",
         "sum += lathe::max(v0, 0.0f) - v0 * v1 + lathe::log1p(lathe::exp(-lathe::abs(v0)));\n"},
    Term{"poisson_nll_loss", "sum += lathe::exp(v0) - v0 * v1;\n"},
    Term{"soft_margin_loss",
         "const $type v2 = v0 * v1;\n"
         "sum += lathe::max(-v2, 0.0f) + lathe::log1p(lathe::exp(-lathe::abs(v2)));\n"},
    Term{"kl_div", "sum += v1 > 0 ? v1 * (lathe::log(v1) - v0) : 0;\n"},
};

}  // namespace

LoopNest emit_loss(const Site& site) {
  const auto term = std::find_if(kTerms.begin(), kTerms.end(),
                                 [&](const Term& entry) { return entry.op == site.op.name(); });
  assert(term != kTerms.end());
  const Expr count = site.in[0].count();
  const std::string type = site.out.compute_type();
  const Holes fields = {{"type", type},
                        {"a", site.in[0].at("i")},
                        {"b", site.in[1].at("i")},
                        {"out", site.out.at("0")},
                        {"divisor", factor(site.op.name() == "kl_div" ? site.in[0].shape[0] : count)},
                        {"p", literal(site.attrs.real(term->parameter, 1))}};
  const std::string body = "const $type v0 = $a;\nconst $type v1 = $b;\n" + std::string(term->code);
  return {Expr::constant(1), expand("$type sum = 0;\n", {}, fields) +
                                 sum_loop(site, "i", count, expand(body, {}, fields)) +
                                 expand("$out = sum / $divisor;\n", {}, fields)};
}

LoopNest emit_nll_loss(const Site& site) {
  const std::string wanted = site.in[0].at("i * " + site.in[0].extent(1) + " + " + site.in[1].at("i"));
  return {Expr::constant(1), expand("$type sum = 0;\n", {{"type", site.out.compute_type()}}) +
                                 sum_loop(site, "i", site.in[0].shape[0], "sum -= " + wanted + ";\n") +
                                 site.out.at("0") + " = sum / " + site.in[0].extent(0) + ";\n"};
}

LoopNest emit_triplet_margin(const Site& site) {
  const Operand& a = site.in[0];
  const auto add_square = [&](const Operand& other) {
    return sum_loop(site, "i", a.shape[1],
                    expand("const $type v = $a - $b + $eps;\nsum += v * v;\n",
                           {{"type", site.out.compute_type()},
                            {"a", a.at("base + i")},
                            {"b", other.at("base + i")},
                            {"eps", literal(site.attrs.real("eps", 1e-6))}}));
  };
  const bool in_parts = needs_parts(site, a.shape[0]);
  return {Expr::constant(1),
          expand(R"(
$type mean = 0, part = 0;
for (int64_t row = 0; row < $rows; ++row) {
  const int64_t base = row * $width;
  $type sum = 0;
  {
    $near
  }
  const $type apart = lathe::sqrt(sum);
  sum = 0;
  {
    $far
  }
  const $type loss = apart - lathe::sqrt(sum) + $margin;
  part += loss > 0 ? loss : 0;
  $end_part
}
$out = (mean + part) / $rows;
)",
                 {{"type", site.out.compute_type()},
                  {"rows", a.extent(0)},
                  {"width", a.extent(1)},
                  {"near", add_square(site.in[1])},
                  {"far", add_square(site.in[2])},
                  {"margin", literal(site.attrs.real("margin", 1))},
                  {"end_part", in_parts ? expand("if (row % $terms == $terms - 1) mean += part, part = 0;\n",
                                                 {{"terms", std::to_string(kSerialTerms)}})
                                        : ""},
                  {"out", site.out.at("0")}})};
}

LoopNest emit_cross_entropy(const Site& site) {
  const std::string type = site.out.compute_type();
  const std::string x = site.in[0].at("base + i");
  const Expr& classes = site.in[0].shape[1];
  const std::string wanted = site.in[0].at("base + " + site.in[1].at("row"));
  const double share = site.attrs.real("label_smoothing", 0);
  const std::string logarithm = "peak + lathe::log(sum)";
  const bool in_parts = needs_parts(site, site.in[0].shape[0]);
  const std::string mean = in_parts ? "part" : "mean";
  const std::string one = mean + " += " + logarithm + " - " + wanted + ";\n";
  const std::string smoothed =
      expand(R"(
const $type whole = $logarithm;
sum = 0;
$add_others
$mean += $kept * (whole - $wanted) + $share * sum / $classes;
)",
             {{"type", type},
              {"mean", mean},
              {"logarithm", logarithm},
              {"add_others", sum_loop(site, "i", classes, "sum += whole - " + x + ";\n")},
              {"kept", literal(1 - share)},
              {"wanted", wanted},
              {"share", literal(share)},
              {"classes", factor(classes)}});
  return {
      Expr::constant(1),
      expand(R"(
$type mean = 0;
$begin_parts
for (int64_t row = 0; row < $rows; ++row) {
  const int64_t base = row * $classes;
  $type peak = $first;
  for (int64_t i = 1; i < $classes; ++i) peak = $x > peak ? $x : peak;
  $type sum = 0;
  $add_exponentials
  $add_loss
  $end_part
}
$add_part
$out = mean / $rows;
)",
             {{"type", type},
              {"add_exponentials", sum_loop(site, "i", classes, "sum += lathe::exp(" + x + " - peak);\n")},
              {"rows", site.in[0].extent(0)},
              {"classes", site.in[0].extent(1)},
              {"begin_parts", in_parts ? expand("$type part = 0;\n", {{"type", type}}) : ""},
              {"end_part", in_parts ? expand("if (row % $terms == $terms - 1) mean += part, part = 0;\n",
                                             {{"terms", std::to_string(kSerialTerms)}})
                                    : ""},
              {"add_part", in_parts ? "mean += part;\n" : ""},
              {"first", site.in[0].at("base")},
              {"x", x},
              {"add_loss", share == 0 ? one : smoothed},
              {"out", site.out.at("0")}})};
}

}  // namespace lathe::naive
