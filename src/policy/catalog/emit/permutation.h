#pragma once

#include "policy/catalog/emit/loops.h"
#include "policy/catalog/emit/program.h"
#include "policy/catalog/emit/site.h"

namespace lathe::catalog {

/// One output axis of a permutation, after neighbours that stay neighbours were merged.
struct PermutedAxis {
  Expr extent;
  Expr from_stride;
  Expr to_stride;
};

/// A permutation of axes: the output's last axis, the input's (`inner`), and loops over all others.
struct Permutation {
  std::vector<PermutedAxis> axes;
  int inner = -1;  ///< along which the input lies; -1 where rows stay rows
  std::vector<Loop> loops;
  std::vector<std::string> names;  ///< of the loops' indices
  std::string from, to;            ///< where the loops' indices lead, in elements

  const PermutedAxis& last() const { return axes.back(); }
  const PermutedAxis& inner_axis() const { return axes[static_cast<std::size_t>(inner)]; }
  /// Of the loops' extents.
  Expr outer() const;
};

Permutation permutation_of(const Site& site);

}  // namespace lathe::catalog
