#pragma once

#include "policy/catalog/emit/loops.h"
#include "policy/catalog/emit/site.h"

namespace lathe::catalog {

/// A product's operand: where a matrix starts for the batch indices, and how it lies in memory.
struct MatrixOperand {
  std::string value;
  std::vector<Expr> shape;
  Placement place;  ///< of the batch axes; -1 for the matrix's own two
  bool transposed = false;
  bool has_batch = false;
};

/// What a contraction multiplies: matrices of rows x depth by depth x columns, one pair for each
/// index of the batch.
struct MatrixProduct {
  MatrixOperand a, b;
  Expr rows, columns, depth;
  std::vector<Loop> loops;        ///< of the result: batch, rows, columns
  std::vector<Loop> batch_loops;  ///< those before the last two
  std::vector<std::string> batch_names;

  std::vector<Expr> batch_extents() const;
  /// The batch's names, "row" and "j": the result's indices inside an epilogue.
  std::vector<std::string> element_indices() const;
  /// Where the operand's matrix starts, in elements: a C expression of the batch's names.
  std::string base(const MatrixOperand& operand) const;
};

/// Of the group whose first node is a contraction. Rows of all matrices count as one matrix's where
/// B is shared and the epilogue allows it.
MatrixProduct matrix_product(const Site& site);

}  // namespace lathe::catalog
