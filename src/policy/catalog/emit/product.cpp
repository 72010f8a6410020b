#include "policy/catalog/emit/product.h"

#include <algorithm>

namespace lathe::catalog {
namespace {

MatrixOperand operand(const Site& site, const std::string& value, bool transposed) {
  MatrixOperand result{value, site.graph.type_of(value).shape, {}, transposed, false};
  const std::size_t rank = result.shape.size(), shift = site.group.space.size() - rank;
  for (std::size_t i = 0; i < rank; ++i) {
    const bool batch = i + 2 < rank && !is_one(result.shape[i]);
    result.place.push_back(batch ? static_cast<int>(i + shift) : -1);
    result.has_batch |= batch;
  }
  return result;
}

Loop one_axis(const Group& group, int axis) {
  const Expr& extent = group.space[static_cast<std::size_t>(axis)];
  return is_one(extent) ? Loop{{}, extent, false} : Loop{{axis}, extent, false};
}

/// Sets the loops; counts the rows of all matrices as one matrix's where that is possible.
void make_loops(const Site& site, MatrixProduct& of) {
  const Group& group = site.group;
  const int n_axis = static_cast<int>(group.space.size()) - 1;
  const bool full = of.a.shape.size() == group.space.size();
  if (!of.b.has_batch && !of.a.transposed && full && of.a.has_batch) {
    std::vector<Loop> merged = merge_loops(site.graph, group, {n_axis});
    std::erase_if(merged, [&](const Loop& loop) { return !loop.axes.empty() && loop.axes[0] == n_axis; });
    const std::vector<Expr> leading(group.space.begin(), group.space.end() - 1);
    bool same = merged.size() == 1;
    for (std::size_t i = 0; i + 1 < leading.size(); ++i) same = same && equal(leading[i], of.a.shape[i]);
    if (same) {
      of.rows = product(leading);
      of.a.place.assign(of.a.place.size(), -1);
      of.loops = {merged[0]};
    }
  }
  if (of.loops.empty()) {
    for (int axis = 0; axis < n_axis - 1; ++axis)
      if (!is_one(group.space[static_cast<std::size_t>(axis)]))
        of.loops.push_back({{axis}, group.space[static_cast<std::size_t>(axis)], false});
    of.loops.push_back(one_axis(group, n_axis - 1));
  }
  of.loops.push_back(one_axis(group, n_axis));
  for (std::size_t l = 0; l + 2 < of.loops.size(); ++l) of.batch_names.push_back("ix" + std::to_string(l));
  of.batch_loops.assign(of.loops.begin(), of.loops.end() - 2);
}

}  // namespace

std::vector<Expr> MatrixProduct::batch_extents() const {
  std::vector<Expr> extents;
  for (const Loop& loop : batch_loops) extents.push_back(loop.extent);
  return extents;
}

std::vector<std::string> MatrixProduct::element_indices() const {
  std::vector<std::string> indices = batch_names;
  indices.emplace_back("row");
  indices.emplace_back("j");
  return indices;
}

std::string MatrixProduct::base(const MatrixOperand& operand) const {
  return element(operand.shape, operand.place, batch_loops, batch_names);
}

MatrixProduct matrix_product(const Site& site) {
  const Primitive& node = site.node();
  MatrixProduct of;
  of.a = operand(site, node.in[0], node.transpose_a);
  of.b = operand(site, node.in[1], node.transpose_b);
  of.columns = node.type.shape.back();
  of.rows = node.type.shape[node.type.shape.size() - 2];
  of.depth = of.a.shape[of.a.shape.size() - (of.a.transposed ? 2 : 1)];
  make_loops(site, of);
  return of;
}

}  // namespace lathe::catalog
