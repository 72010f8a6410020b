#include "policy/catalog/emit/permutation.h"

#include <algorithm>

namespace lathe::catalog {
namespace {

std::vector<PermutedAxis> merged_axes(const Site& site) {
  const Primitive& node = site.node();
  const std::vector<Expr>& from = site.shape_of_input(0);
  const std::vector<Expr>& to = node.type.shape;
  std::vector<PermutedAxis> axes;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto source = static_cast<std::size_t>(node.axes[i]);
    const PermutedAxis axis{to[i], product(std::span(from).subspan(source + 1)),
                            product(std::span(to).subspan(i + 1))};
    if (i > 0 && node.axes[i] == node.axes[i - 1] + 1) {
      axes.back() = {axes.back().extent * axis.extent, axis.from_stride, axis.to_stride};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

}  // namespace

Expr Permutation::outer() const {
  Expr items = Expr::constant(1);
  for (const Loop& loop : loops) items = items * loop.extent;
  return items;
}

Permutation permutation_of(const Site& site) {
  Permutation of{.axes = merged_axes(site), .from = "0", .to = "0"};
  const auto inner =
      std::ranges::find_if(of.axes, [](const PermutedAxis& axis) { return is_one(axis.from_stride); });
  if (inner != of.axes.end() && !is_one(of.last().from_stride))
    of.inner = static_cast<int>(inner - of.axes.begin());
  for (std::size_t i = 0; i + 1 < of.axes.size(); ++i) {
    if (static_cast<int>(i) == of.inner) continue;
    of.names.push_back("ix" + std::to_string(i));
    of.loops.push_back({{}, of.axes[i].extent, false});
    of.from += " + " + times(of.names.back(), of.axes[i].from_stride);
    of.to += " + " + times(of.names.back(), of.axes[i].to_stride);
  }
  return of;
}

}  // namespace lathe::catalog
