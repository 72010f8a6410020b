#pragma once

#include "policy/catalog/emit/program.h"
#include "policy/catalog/emit/site.h"

namespace lathe::catalog {

/// A tensor around one axis: [outer, extent, inner].
struct Lines {
  Expr outer, extent, inner;

  Expr row() const { return extent * inner; }
};
Lines lines_along(const std::vector<Expr>& shape, int axis);

/// The function of lathe/cpu.h that copies contiguous rows of up to `floats`, by the knob "copy".
std::string choose_row_copy(const Site& site, const Expr& floats);
/// Whether rows are shorter than a processor's vectors.
bool is_short(const Site& site, const Expr& floats);

/// Of a kernel that reads its operands and writes its result once.
Work copying_work(const Site& site);

}  // namespace lathe::catalog
