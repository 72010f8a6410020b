#include "policy/catalog/emit/loops.h"

#include <algorithm>

namespace lathe::catalog {
namespace {

/// The position of a space axis among the value's own axes, or -1.
int own_axis(const Placement& place, int axis) {
  const auto found = std::ranges::find(place, axis);
  return found == place.end() ? -1 : static_cast<int>(found - place.begin());
}

/// Whether the value's elements along `next` follow those along `axis` without a gap.
bool adjacent(const Placement& place, int axis, int next) {
  const int from = own_axis(place, axis), to = own_axis(place, next);
  if (from < 0 && to < 0) return true;
  if (from < 0 || to < 0 || to < from) return false;
  return std::all_of(place.begin() + from + 1, place.begin() + to, [](int between) { return between < 0; });
}

}  // namespace

std::vector<Loop> merge_loops(const Graph&, const Group& group, const std::vector<int>& borders) {
  std::vector<Loop> loops;
  for (std::size_t i = 0; i < group.space.size(); ++i) {
    if (is_one(group.space[i])) continue;
    const int axis = static_cast<int>(i);
    bool joins = !loops.empty() && loops.back().reduced == group.reduced[i] &&
                 std::ranges::find(borders, axis) == borders.end();
    for (const auto& [value, place] : group.places)
      joins = joins && adjacent(place, loops.back().axes.back(), axis);
    if (joins) {
      loops.back().axes.push_back(axis);
      loops.back().extent = loops.back().extent * group.space[i];
    } else {
      loops.push_back({{axis}, group.space[i], group.reduced[i]});
    }
  }
  if (loops.empty()) loops.push_back({{}, Expr::constant(1), false});
  return loops;
}

std::vector<Loop> axis_loops(const Group& group) {
  std::vector<Loop> loops;
  for (std::size_t i = 0; i < group.space.size(); ++i) {
    std::vector<int> axes;
    if (!is_one(group.space[i])) axes.push_back(static_cast<int>(i));
    loops.push_back({std::move(axes), group.space[i], false});
  }
  return loops;
}

bool runs_along(const Group& group, const std::string& value, const Loop& loop) {
  return !loop.axes.empty() && own_axis(group.places.at(value), loop.axes.back()) >= 0;
}

std::string element(const std::vector<Expr>& shape, const Placement& place, const std::vector<Loop>& loops,
                    const std::vector<std::string>& indices) {
  std::string text;
  for (std::size_t l = 0; l < loops.size(); ++l) {
    if (indices[l].empty() || loops[l].axes.empty()) continue;
    const int own = own_axis(place, loops[l].axes.back());
    if (own < 0) continue;
    const Expr stride = product(std::span(shape).subspan(static_cast<std::size_t>(own) + 1));
    if (!text.empty()) text += " + ";
    text += indices[l];
    if (!is_one(stride)) text += " * " + factor(stride);
  }
  return text.empty() ? "0" : text;
}

std::string element(const Graph& graph, const Group& group, const std::vector<Loop>& loops,
                    const std::string& value, const std::vector<std::string>& indices) {
  return element(graph.type_of(value).shape, group.places.at(value), loops, indices);
}

std::string times(const std::string& index, const Expr& stride) {
  return is_one(stride) ? index : index + " * " + factor(stride);
}

std::string unflatten(const std::string& number, const std::vector<Loop>& loops,
                      const std::vector<std::string>& names, bool cuda) {
  std::string text;
  Expr inner = Expr::constant(1);
  for (std::size_t l = loops.size(); l-- > 0;) {
    std::string value = number;
    if (!is_one(inner))
      value = cuda ? "quotient(" + number + ", " + inner.to_string() + ")" : number + " / " + factor(inner);
    if (l > 0 && cuda) value = "residue(" + value + ", " + loops[l].extent.to_string() + ")";
    if (l > 0 && !cuda) value = (is_one(inner) ? value : "(" + value + ")") + " % " + factor(loops[l].extent);
    text = "const int64_t " + names[l] + " = " + value + ";\n" + text;
    inner = inner * loops[l].extent;
  }
  return text;
}

}  // namespace lathe::catalog
