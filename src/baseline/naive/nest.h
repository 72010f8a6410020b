#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "candidate/template.h"
#include "task/spec.h"

namespace lathe::naive {

/// A value as the emitted code names it; extents are expressions over the kernel's integer
/// arguments.
struct Operand {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Expr> shape;
  bool by_value = false;

  std::string c_type() const;
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

/// One node as an emitter sees it: names and expressions are those of the C code.
struct Site {
  const Op& op;
  Attrs attrs;
  std::vector<Operand> in;
  Operand out;
  Dims largest;             ///< each dim's highest value
  bool many_items = false;  ///< items are cheap (a GPU's threads): products give each element its own

  /// An integer attribute, which may be an expression over dims.
  Expr expression(std::string_view name, const Expr& fallback) const;
  /// An axis attribute, counted from the front of a tensor of this rank.
  std::size_t axis(std::string_view name, std::int64_t fallback, int rank) const;
  /// A list attribute of `count` numbers; one number stands for all.
  std::vector<std::int64_t> integers(std::string_view name, std::size_t count, std::int64_t fallback) const;
};

/// The code of one work item, which it finds in `item`.
struct LoopNest {
  Expr items = Expr::constant(1);
  std::string body;
  Expr work = Expr::constant(0);      ///< fp32 elements of scratch, which the bodies call `work`
  bool zeroed = false;                ///< before each call
  std::vector<LoopNest> before = {};  ///< run first, one after the other
};

using Emitter = LoopNest (*)(const Site&);

/// nullptr when the op has no emitter, which tests/baseline forbids for registered ops.
Emitter find_emitter(const Op& op);

bool is_one(const Expr& extent);

/// An expression in parentheses unless it is a name or a number.
std::string factor(const Expr& expr);

/// "1e-05f": C reads back the nearest fp32.
std::string literal(double value);

/// "i0", "i1", ...: reserved for indices of axes.
std::vector<std::string> index_names(int count);

/// The row-major position of an element: "(i * N + j) * K + k".
std::string position(const std::vector<Expr>& shape, const std::vector<std::string>& indices);

/// The operand's element for the result's `indices`, aligned at the last axis as in NumPy; constant
/// extents of 1 are stretched.
std::string broadcast_position(const Operand& operand, const std::vector<std::string>& indices);

/// Declares `names`, the indices of the element numbered `number` in extents `shape`.
std::string unflatten(std::string_view number, const std::vector<Expr>& shape,
                      const std::vector<std::string>& names);

/// A loop over [0, extent) around `body`.
std::string loop(const std::string& index, const Expr& extent, const std::string& body);

/// More terms may lose small ones to large ones in a running sum.
inline constexpr std::int64_t kSerialTerms = 4096;

/// Whether the task may sum more than kSerialTerms.
bool needs_parts(const Site& site, const Expr& terms);

/// A loop over [0, extent) whose `body` adds to `sum`, in parts of kSerialTerms.
std::string sum_in_parts(const std::string& index, const Expr& extent, const std::string& body);

/// The same; in parts only if `extent` needs them.
std::string sum_loop(const Site& site, const std::string& index, const Expr& extent, const std::string& body);

/// A row times a matrix: `out`, of the column j, becomes the sum over k of `left`, of k, times
/// `right`, of k and j.
struct RowProduct {
  std::string type, columns, depth, left, right, out;
};
/// In parts, of a strip of columns at a time, whose sums and parts are local.
std::string in_parts(const RowProduct& product, int strip);

/// What loops of any depth need to add `terms` terms to `sum` in parts; nothing if they need none.
struct Parts {
  std::string before;  ///< the loops
  std::string step;    ///< last in the innermost loop
  std::string behind;  ///< the loops
};
Parts parts_of(const Site& site, const Expr& terms);

/// A tensor as lines along some neighbouring axes, one line an item.
struct Lines {
  Expr count;
  Expr length;
  std::string begin;   ///< declares `base`, where the line starts
  std::string stride;  ///< " * inner", or empty where the line is contiguous

  /// The position of element `index` of the line.
  std::string at(std::string_view index) const;
};
Lines lines_along(const Operand& operand, std::size_t first_axis, std::size_t last_axis);

}  // namespace lathe::naive
