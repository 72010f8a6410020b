#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "task/spec.h"

namespace lathe::naive {

/// A value as the emitted code names it; extents are expressions over the kernel's integer arguments.
struct Operand {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Expr> shape;
  bool by_value = false;

  std::string c_type() const { return std::string(info(dtype).c_name); }
  /// The type in which a careful kernel computes: fp32 for the narrow floating-point formats.
  std::string compute_type() const;
  /// The extent of `axis`, counted from the end if negative, parenthesised for use in a product.
  std::string extent(int axis) const;
  int rank() const { return static_cast<int>(shape.size()); }
  /// The product of the extents of axes [from, to); "1" when empty.
  Expr count(int from, int to) const;
  Expr count() const { return count(0, rank()); }
  /// "name[index]", or the name alone for a scalar passed by value.
  std::string at(std::string_view index) const;
};

/// One node as an emitter sees it.
struct Site {
  const Op& op;
  const Attrs& attrs;
  std::vector<Operand> in;
  Operand out;
};

/// The code of one work item, which it finds in `item`. Lines need no indentation.
struct LoopNest {
  Expr items = Expr::constant(1);
  std::string body;
};

using Emitter = LoopNest (*)(const Site&);

/// nullptr when the op has no emitter, which tests/baseline forbids for registered ops.
Emitter find_emitter(const Op& op);

LoopNest emit_elementwise(const Site& site);
LoopNest emit_matmul(const Site& site);
LoopNest emit_reduction(const Site& site);
LoopNest emit_softmax(const Site& site);
LoopNest emit_layer_norm(const Site& site);

/// A tensor as lines along some neighbouring axes, one line an item.
struct Lines {
  Expr count;
  Expr length;
  std::string begin;   ///< declares `base`, where the line starts
  std::string stride;  ///< " * inner", or empty where the line is contiguous

  /// The position of element `index` of the line.
  std::string at(std::string_view index) const { return "base + " + std::string(index) + stride; }
};
Lines lines_along(const Operand& operand, std::size_t first_axis, std::size_t last_axis);

/// A reduction's loops: over the reduced axes from outside in, around the results of one item that lie side
/// by side behind the last reduced axis.
struct ReductionLoops {
  Expr items = Expr::constant(1);
  Expr length = Expr::constant(1);  ///< elements that one result combines
  Expr inner = Expr::constant(1);   ///< results side by side, numbered by `j` unless it is 1
  std::string begin;                ///< declares the indices of the kept axes
  std::string open;
  std::string close;
  std::string element;  ///< the input inside the loops
};
ReductionLoops reduction_loops(const Site& site);

/// An axis attribute, counted from the front.
std::size_t axis_of(const Site& site, std::string_view name, std::int64_t fallback, int rank);

/// "1e-05f": C reads back the nearest fp32.
std::string literal(double value);

/// Replaces each $name of `pattern` by its text: C code stays readable without doubled braces.
using Fields = std::vector<std::pair<std::string_view, std::string>>;
std::string fill(std::string_view pattern, const Fields& fields);

bool is_one(const Expr& extent);

/// An expression in parentheses unless it is a name or a number.
std::string factor(const Expr& expr);

/// The row-major position of an element: "(i * N + j) * K + k".
std::string position(const std::vector<Expr>& shape, const std::vector<std::string>& indices);

/// The operand's element for the result's `indices`, aligned at the last axis as in NumPy; constant extents
/// of 1 are stretched.
std::string broadcast_position(const Operand& operand, const std::vector<std::string>& indices);

/// "i0", "i1", ...: reserved for indices of axes.
std::vector<std::string> index_names(int count);

/// Declares `names`, the indices of the element numbered `number` in extents `shape`.
std::string unflatten(std::string_view number, const std::vector<Expr>& shape,
                      const std::vector<std::string>& names);

/// Two spaces for each open brace.
std::string indent(std::string_view code);

}  // namespace lathe::naive
