#pragma once

#include <string>
#include <vector>

#include "policy/catalog/ir/group.h"

namespace lathe::catalog {

/// More terms than this may lose small ones to large ones in one running sum of fp32: longer sums
/// are made of parts of kPartTerms.
inline constexpr std::int64_t kSerialTerms = 4096;
inline constexpr std::int64_t kPartTerms = 1024;

/// One loop of a nest: one axis of the space, or several adjacent ones that every value runs
/// through as one.
struct Loop {
  std::vector<int> axes;
  Expr extent;
  bool reduced = false;
};

/// Merges the space's axes as far as the placements allow; axes of extent 1 vanish. No loop crosses
/// the axes listed in `borders` (each begins a new loop). At least one loop.
std::vector<Loop> merge_loops(const Graph& graph, const Group& group, const std::vector<int>& borders = {});

/// One loop an axis; extents of 1 have no axis.
std::vector<Loop> axis_loops(const Group& group);

/// Whether `value` changes along the loop.
bool runs_along(const Group& group, const std::string& value, const Loop& loop);

/// The element of `value` in C, for `indices` (one a loop; "" stands for 0): "ix0 * cols + j". "0"
/// if constant.
std::string element(const Graph& graph, const Group& group, const std::vector<Loop>& loops,
                    const std::string& value, const std::vector<std::string>& indices);

std::string element(const std::vector<Expr>& shape, const Placement& place, const std::vector<Loop>& loops,
                    const std::vector<std::string>& indices);

/// "i * stride", or the index alone.
std::string times(const std::string& index, const Expr& stride);

/// Declares the indices of the item numbered `number` in the extents of `loops`. GPUs divide 64
/// bits slowly: for them, by lathe::quotient and lathe::residue.
std::string unflatten(const std::string& number, const std::vector<Loop>& loops,
                      const std::vector<std::string>& names, bool cuda = false);

}  // namespace lathe::catalog
