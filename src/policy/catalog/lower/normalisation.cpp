#include <numeric>

#include "policy/catalog/lower/lowering.h"

namespace lathe::catalog {
namespace {

void lower_softmax(Lowering& to, bool logarithm) {
  const std::string& x = to.node().in[0];
  const std::vector<int> axes = {to.axis("axis", -1)};
  const std::string top = to.reduce("max", x, axes, true);
  const std::string shifted = to.apply("{0} - {1}", {x, top});
  const std::string e = to.apply("lathe::exp({0})", {shifted});
  const std::string total = to.reduce("sum", e, axes, true);
  if (logarithm) {
    to.apply("{0} - {1}", {shifted, to.apply("lathe::log({0})", {total})}, true);
  } else {
    to.apply("{0} * {1}", {e, to.apply("1.0f / {0}", {total})}, true);
  }
}

/// y = (x - mean) / sqrt(var + eps) over `axes`, without the mean if not `centre`; then gamma and
/// beta, which broadcast.
void lower_norm(Lowering& to, std::string x, const std::vector<int>& axes, bool centre, double eps,
                std::vector<std::string> affine, bool last) {
  std::vector<Expr> extents;
  for (const int axis : axes) extents.push_back(to.shape(x)[static_cast<std::size_t>(axis)]);
  const std::string scale = " * " + Lowering::reciprocal_count(extents);
  std::string y = x;
  if (centre) y = to.apply("{0} - {1}", {x, to.apply("{0}" + scale, {to.reduce("sum", x, axes, true)})});
  const std::string squares = to.reduce("sum", to.apply("{0} * {0}", {y}), axes, true);
  const std::string inverse = to.apply("lathe::rsqrt({0}" + scale + " + " + float_text(eps) + ")", {squares});
  y = to.apply("{0} * {1}", {y, inverse}, last && affine.empty());
  if (!affine.empty()) y = to.apply("{0} * {1}", {y, affine[0]}, last && affine.size() == 1);
  if (affine.size() > 1) y = to.apply("{0} + {1}", {y, affine[1]}, last);
  if (!last) to.view(y, to.node().type.shape, true);
}

/// x [N, C, ...] as [N, G, C/G, ...]: each group is one row.
void lower_group_norm(Lowering& to, const Expr& groups) {
  const NodeDecl& node = to.node();
  const std::vector<Expr>& shape = to.shape(node.in[0]);
  const Expr per_group = Expr::apply("/", shape[1], groups);
  std::vector<Expr> split = {shape[0], groups, per_group};
  split.insert(split.end(), shape.begin() + 2, shape.end());
  std::vector<int> axes(split.size() - 2);
  std::iota(axes.begin(), axes.end(), 2);
  std::vector<std::string> affine;
  for (std::size_t i = 1; i < node.in.size(); ++i) {
    std::vector<Expr> channel(split.size() - 1, Expr::constant(1));
    channel[0] = groups;
    channel[1] = per_group;
    affine.push_back(to.view(node.in[i], channel));
  }
  lower_norm(to, to.view(node.in[0], split), axes, true, node.attrs.real("eps", 1e-5), affine, false);
}

void lower_l2_normalize(Lowering& to) {
  const std::string& x = to.node().in[0];
  const std::string squares = to.reduce("sum", to.apply("{0} * {0}", {x}), {to.axis("axis", -1)}, true);
  const std::string eps = float_text(to.attrs().real("eps", 1e-12));
  to.apply("{0} * {1}", {x, to.apply("1.0f / lathe::max(lathe::sqrt({0}), " + eps + ")", {squares})}, true);
}

}  // namespace

bool lower_normalisation(Lowering& to) {
  const NodeDecl& node = to.node();
  const std::string& op = node.op_name;
  if (op == "softmax" || op == "log_softmax") return lower_softmax(to, op == "log_softmax"), true;
  if (op == "group_norm") {
    const auto groups = to.expression("groups", 1);
    return groups.ok() && (lower_group_norm(to, *groups), true);
  }
  if (op == "instance_norm") return lower_group_norm(to, to.shape(node.in[0])[1]), true;
  if (op == "l2_normalize") return lower_l2_normalize(to), true;
  if (op != "layer_norm" && op != "rms_norm") return false;
  std::vector<int> axes(static_cast<std::size_t>(to.rank(node.in[0]) - to.axis("axis", -1)));
  std::iota(axes.begin(), axes.end(), to.axis("axis", -1));
  lower_norm(to, node.in[0], axes, op == "layer_norm", node.attrs.real("eps", 1e-5),
             {node.in.begin() + 1, node.in.end()}, true);
  return true;
}

}  // namespace lathe::catalog
