#include <numeric>

#include "policy/catalog/lower/lowering.h"

namespace lathe::catalog {
namespace {

std::vector<int> all_axes(int rank) {
  std::vector<int> axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

/// The formula of one term from operands {0} and {1}; empty if the op is no mean loss.
std::string term_of(const NodeDecl& node) {
  const std::string& op = node.op_name;
  const std::string d = "lathe::abs({0} - {1})";
  const auto huber = [&](double delta, double divisor) {
    const std::string bound = float_text(delta), half = float_text(0.5 * delta),
                      over = float_text(1 / divisor);
    return "lathe::select(lathe::le(" + d + ", " + bound + "), 0.5f * " + d + " * " + d + ", " + bound +
           " * (" + d + " - " + half + ")) * " + over;
  };
  if (op == "mse_loss") return "({0} - {1}) * ({0} - {1})";
  if (op == "l1_loss") return d;
  if (op == "huber_loss") return huber(node.attrs.real("delta", 1), 1);
  if (op == "smooth_l1_loss") return huber(node.attrs.real("beta", 1), node.attrs.real("beta", 1));
  if (op == "hinge_loss") return "lathe::max(1.0f - {0} * {1}, 0.0f)";
  if (op == "bce_with_logits")
    return "lathe::max({0}, 0.0f) - {0} * {1} + lathe::log1p(lathe::exp(-lathe::abs({0})))";
  if (op == "poisson_nll_loss") return "lathe::exp({0}) - {0} * {1}";
  if (op == "soft_margin_loss")
    return "lathe::max(-({0} * {1}), 0.0f) + lathe::log1p(lathe::exp(-lathe::abs({0} * {1})))";
  if (op == "kl_div")
    return "lathe::select(lathe::gt({1}, 0.0f), {1} * (lathe::log(lathe::max({1}, 1e-45f)) - {0}), 0.0f * "
           "{1})";
  return {};
}

/// The loss of each row: all classes share `share` of the target's weight. Differences from the
/// maximum are summed, so that nothing cancels where logits are large.
std::string lower_smoothed(Lowering& to, const std::vector<std::string>& top_total_picked, double share) {
  const std::string& x = to.node().in[0];
  const std::string below = to.apply("{1} - {0}", {x, top_total_picked[0]});
  std::vector<std::string> operands = top_total_picked;
  operands.push_back(to.reduce("sum", below, {1}, true));
  return to.apply("lathe::log({1}) + " + float_text(1 - share) + " * ({0} - {2}) + " + float_text(share) +
                      " * ({3} * " + Lowering::reciprocal_count({&to.shape(x)[1], 1}) + ")",
                  operands);
}

void lower_cross_entropy(Lowering& to) {
  const std::string& x = to.node().in[0];
  const std::vector<Expr>& shape = to.shape(x);
  const std::string target = to.view(to.node().in[1], {shape[0], Expr::constant(1)});
  const std::string top = to.reduce("max", x, {1}, true);
  const std::string total = to.reduce("sum", to.apply("lathe::exp({0} - {1})", {x, top}), {1}, true);
  const std::string chosen =
      to.apply("lathe::select(lathe::eq({1}, {2}), {0}, 0.0f * {1})", {x, to.iota(shape[1], 0), target});
  const std::string picked = to.reduce("sum", chosen, {1}, true);
  const double share = to.attrs().real("label_smoothing", 0);
  const std::string row = share == 0 ? to.apply("{0} + lathe::log({1}) - {2}", {top, total, picked})
                                     : lower_smoothed(to, {top, total, picked}, share);
  const std::string sum = to.reduce("sum", row, {0, 1}, false);
  to.apply("{0} * " + Lowering::reciprocal_count({&shape[0], 1}), {sum}, true);
}

void lower_nll_loss(Lowering& to) {
  const std::vector<Expr>& x = to.shape(to.node().in[0]);
  const std::vector<Expr> column = {x[0], Expr::constant(1)};
  const std::string picked = to.add({.kind = Kind::kMove,
                                     .out = {},
                                     .in = {to.node().in[0], to.view(to.node().in[1], column)},
                                     .type = {to.type(to.node().in[0]).dtype, column},
                                     .how = "take_along",
                                     .axes = {1}});
  to.apply("{0} * -" + Lowering::reciprocal_count(std::span(x).first(1)),
           {to.reduce("sum", picked, {0, 1}, false)}, true);
}

void lower_triplet_margin(Lowering& to) {
  const std::vector<std::string>& in = to.node().in;
  const std::string eps = float_text(to.attrs().real("eps", 1e-6)),
                    margin = float_text(to.attrs().real("margin", 1));
  const auto squares = [&](const std::string& other) {
    const std::string apart = to.apply("{0} - {1} + " + eps, {in[0], other});
    return to.reduce("sum", to.apply("{0} * {0}", {apart}), {1}, true);
  };
  const std::string near = squares(in[1]), far = squares(in[2]);
  const std::string row =
      to.apply("lathe::max(lathe::sqrt({0}) - lathe::sqrt({1}) + " + margin + ", 0.0f)", {near, far});
  to.apply("{0} * " + Lowering::reciprocal_count(std::span(to.shape(in[0])).first(1)),
           {to.reduce("sum", row, {0, 1}, false)}, true);
}

}  // namespace

bool lower_loss(Lowering& to) {
  const NodeDecl& node = to.node();
  if (node.op_name == "cross_entropy") return lower_cross_entropy(to), true;
  if (node.op_name == "nll_loss") return lower_nll_loss(to), true;
  if (node.op_name == "triplet_margin_loss") return lower_triplet_margin(to), true;
  const std::string term = term_of(node);
  if (term.empty()) return false;
  const std::vector<Expr>& shape = to.shape(node.in[0]);
  const std::string sum =
      to.reduce("sum", to.apply(term, {node.in[0], node.in[1]}), all_axes(to.rank(node.in[0])), false);
  const std::span<const Expr> counted(shape.data(),
                                      node.op_name == "kl_div" && !shape.empty() ? 1 : shape.size());
  to.apply("{0} * " + Lowering::reciprocal_count(counted), {sum}, true);
  return true;
}

}  // namespace lathe::catalog
