#pragma once

#include "policy/catalog/ir/graph.h"
#include "policy/catalog/lower/lower.h"

namespace lathe::catalog {

/// Appends primitives for one node; temporaries are named after the node's result.
class Lowering {
 public:
  Lowering(Graph& graph, const NodeDecl& node);

  const NodeDecl& node() const { return node_; }
  const Attrs& attrs() const { return node_.attrs; }
  const SymbolicType& type(const std::string& value) const { return graph_.type_of(value); }
  const std::vector<Expr>& shape(const std::string& value) const { return type(value).shape; }
  const TaskSpec& task() const { return *graph_.task; }
  const Graph& graph() const { return graph_; }
  int rank(const std::string& value) const { return static_cast<int>(shape(value).size()); }
  int axis(std::string_view name, int fallback) const;  ///< attribute as an axis of the first input, >= 0

  /// An integer attribute, with dims named as in the kernels' code. Errors: text that does not
  /// parse.
  Result<Expr> expression(std::string_view name, std::int64_t fallback) const;

  /// Adds a primitive whose result is a temporary, or the node's own result if `last`.
  std::string add(Primitive primitive, bool last = false);

  std::string view(const std::string& value, std::vector<Expr> shape, bool last = false);
  std::string reduce(const std::string& how, const std::string& value, const std::vector<int>& axes,
                     bool keep, bool last = false);
  /// `pattern` has {0}, {1}, ... for the operands.
  std::string apply(const std::string& pattern, std::vector<std::string> operands, bool last = false);
  std::string apply(Formula formula, std::vector<std::string> operands, bool last = false);
  /// The value under a shape that it broadcasts to.
  std::string spread(const std::string& value, std::vector<Expr> shape);
  /// 0, 1, ... along an axis of extent `extent` that has `behind` axes of extent 1 behind it.
  std::string iota(const Expr& extent, int behind);
  /// Lets elementwise ops that read the node's result take `positions`, from iota(), instead.
  void count_as(const std::string& positions) { graph_.counted[node_.out] = positions; }
  /// One over the number of elements along the axes, as a C expression.
  static std::string reciprocal_count(std::span<const Expr> extents);

 private:
  Graph& graph_;
  const NodeDecl& node_;
  DType temporary_ = DType::kF32;  ///< of values on the way
  bool exact_ = false;
  int temporaries_ = 0;
};

bool is_narrow(DType dtype);
/// Makes every value fp32 but those that a narrow input or output holds, and what only moves their
/// elements, and but the factors of `products`: narrow ones are read and written by loops and moves
/// alone.
void hold_in_fp32(Graph& graph, NarrowProducts products);

std::string float_text(double value);
std::vector<Expr> broadcast_shape(const std::vector<Expr>& a, const std::vector<Expr>& b);

/// Ops by name. False when the op is not theirs.
bool lower_elementwise(Lowering& to);
bool lower_reduction(Lowering& to);
bool lower_normalisation(Lowering& to);
bool lower_loss(Lowering& to);
bool lower_contraction(Lowering& to);
bool lower_stencil(Lowering& to);
bool lower_move(Lowering& to);
bool lower_attention(Lowering& to);

}  // namespace lathe::catalog
