#include "policy/catalog/lower/lowering.h"

namespace lathe::catalog {
namespace {

/// The node that makes `value` of a vector which is still what it was then.
const NodeDecl* diagonal_of(const TaskSpec& task, const std::string& value) {
  const NodeDecl* node = task.find_node(value);
  if (node == nullptr || node->op_name != "diag" || task.find_tensor(value) != nullptr) return nullptr;
  const TensorDecl* vector = task.find_tensor(node->in[0]);
  return vector != nullptr && vector->role == Role::kInOut ? nullptr : node;
}

/// diag(a) @ B scales rows, B @ diag(a) scales columns: no product of matrices at all.
bool lower_diagonal_product(Lowering& to, const TaskSpec& task) {
  const NodeDecl& node = to.node();
  if (const NodeDecl* diagonal = diagonal_of(task, node.in[0])) {
    if (node.attrs.flag("transpose_b", false)) return false;
    const std::string& a = diagonal->in[0];
    if (to.rank(a) != 1) return false;
    to.apply("{0} * {1}", {to.view(a, {to.shape(a)[0], Expr::constant(1)}), node.in[1]}, true);
    return true;
  }
  if (const NodeDecl* diagonal = diagonal_of(task, node.in[1])) {
    if (node.attrs.flag("transpose_a", false) || to.rank(diagonal->in[0]) != 1) return false;
    to.apply("{0} * {1}", {node.in[0], diagonal->in[0]}, true);
    return true;
  }
  return false;
}

/// x @ w^T + b; a vector counts as a matrix of one row.
void lower_linear(Lowering& to) {
  const NodeDecl& node = to.node();
  const bool vector = to.rank(node.in[0]) == 1, bias = node.in.size() > 2;
  Primitive product{.kind = Kind::kContract, .out = {}, .in = {node.in[0], node.in[1]}, .type = node.type};
  product.transpose_b = true;
  if (vector) {
    const Expr one = Expr::constant(1);
    product.in[0] = to.view(node.in[0], {one, to.shape(node.in[0])[0]});
    product.type.shape.insert(product.type.shape.begin(), one);
  }
  std::string y = to.add(product, !bias && !vector);
  if (vector) y = to.view(y, node.type.shape, !bias);
  if (bias) to.apply("{0} + {1}", {y, node.in[2]}, true);
}

/// Sums of the operands' own type, or of int32 for bytes.
bool is_summed_as_it_is(const Lowering& to) {
  const DType from = to.type(to.node().in[0]).dtype, sum = to.node().type.dtype;
  if (from == DType::kI8 || from == DType::kU8) return sum == DType::kI32;
  return is_wide(from) || is_wide(sum) ? from == sum : true;
}

}  // namespace

bool lower_contraction(Lowering& to) {
  const NodeDecl& node = to.node();
  if (node.op_name == "linear") {
    lower_linear(to);
    return true;
  }
  if (node.op_name == "grouped_matmul") {
    Primitive product{.kind = Kind::kGrouped, .out = {}, .in = node.in, .type = node.type};
    product.transpose_b = node.attrs.flag("transpose_b", false);
    to.add(product, true);
    return true;
  }
  if (node.op_name == "outer") {
    to.apply("{0} * {1}", {to.view(node.in[0], {to.shape(node.in[0])[0], Expr::constant(1)}), node.in[1]},
             true);
    return true;
  }
  if (node.op_name != "matmul" && node.op_name != "bmm") return false;
  if (!is_summed_as_it_is(to)) return false;
  if (lower_diagonal_product(to, to.task())) return true;
  Primitive product{.kind = Kind::kContract, .out = {}, .in = node.in, .type = node.type};
  product.transpose_a = node.attrs.flag("transpose_a", false);
  product.transpose_b = node.attrs.flag("transpose_b", false);
  to.add(product, true);
  return true;
}

}  // namespace lathe::catalog
