#include "policy/catalog/emit/lines.h"

#include <array>

namespace lathe::catalog {

Lines lines_along(const std::vector<Expr>& shape, int axis) {
  const auto at = static_cast<std::size_t>(axis);
  return {product(std::span(shape).first(at)), shape[at], product(std::span(shape).subspan(at + 1))};
}

bool is_short(const Site& site, const Expr& floats) {
  return !site.target.cuda && site.headline(floats) < site.target.lanes;
}

std::string choose_row_copy(const Site& site, const Expr& floats) {
  if (site.target.cuda) return "copy_row";
  static constexpr std::array<std::string_view, 4> kNames = {"copy_row", "copy_row_by_library",
                                                             "copy_row_past_cache", "copy_short"};
  const int copy = is_short(site, floats) ? site.knob("copy", {0, 3}, 3) : site.knob("copy", {0, 1, 2}, 0);
  return std::string(kNames[static_cast<std::size_t>(copy)]);
}

Work copying_work(const Site& site) {
  Work work{.bytes = 4 * site.count(site.node().type.shape)};
  for (std::size_t i = 0; i < site.node().in.size(); ++i)
    work.bytes += 4 * site.count(site.shape_of_input(i));
  return work;
}

}  // namespace lathe::catalog
