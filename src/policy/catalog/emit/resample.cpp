#include "policy/catalog/emit/lines.h"
#include "policy/catalog/emit/loops.h"
#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {
namespace {

/// Where an axis in front of the last lies between two elements.
constexpr std::string_view kBetween = R"(
const float place_$i = $place;
const int64_t low_$i = min(static_cast<int64_t>(place_$i), int64_t{$in} - 1);
const int64_t high_$i = min(low_$i + 1, int64_t{$in} - 1);
const float weight_$i = place_$i - static_cast<float>(low_$i);
)";

/// One output row an item; lanes are its columns.
constexpr std::string_view kResample = R"(
$indices
const float* plane = $x + plane_number * ($in_plane);
$between
for (int64_t j = 0; j < $columns; j += kLanes) {
  const maskv lanes = first_lanes($columns - j);
  const f32v column = f32v(static_cast<float>(j)) + lane_index();
  const f32v place = $place;
  const f32v last(static_cast<float>($width - 1));
  const f32v low = lathe::min(lathe::floor(place), last);
  const f32v high = lathe::min(low + f32v(1.0f), last);
  const f32v weight = place - low;
  const auto along = [&](const float* row)$inlined {
    const f32v below = gather_at(row, low, lanes);
    return below + weight * (gather_at(row, high, lanes) - below);
  };
  const f32v value = $value;
  store($y + item * $columns + j, value, lanes);
}
)";

/// The place of `position` on an axis, in fp32.
std::string place_of(const std::string& position, const Expr& in, const Expr& out, bool corners, bool lanes) {
  const std::string from = "static_cast<float>(" + in.to_string() + ")",
                    to = "static_cast<float>(" + out.to_string() + ")";
  const auto number = [&](const std::string& text) { return lanes ? "f32v(" + text + ")" : text; };
  if (corners)
    return position + " * " + number("((" + from + " - 1.0f) / lathe::max(" + to + " - 1.0f, 1.0f))");
  return "lathe::max((" + position + " + " + number("0.5f") + ") * " + number("(" + from + " / " + to + ")") +
         " - " + number("0.5f") + ", " + number("0.0f") + ")";
}

/// The value between the rows of all axes in front of the last.
std::string between_rows(const std::vector<Expr>& shape, std::size_t axis, const std::string& row) {
  const std::string extent = factor(shape[axis]), number = std::to_string(axis);
  const auto next = [&](const std::string& place) {
    const std::string place_in_plane =
        row.empty() ? place + number : "(" + row + ") * " + extent + " + " + place + number;
    if (axis + 2 < shape.size()) return between_rows(shape, axis + 1, place_in_plane);
    return "along(plane + (" + place_in_plane + ") * " + factor(shape.back()) + ")";
  };
  return "f32v(1.0f - weight_" + number + ") * (" + next("low_") + ") + f32v(weight_" + number + ") * (" +
         next("high_") + ")";
}

}  // namespace

Status emit_resample(const Site& site, Program& program) {
  const Primitive& node = site.node();
  const std::vector<Expr>& from = site.shape_of_input(0);
  const std::vector<Expr>& to = node.type.shape;
  const bool corners = node.how == "corners";
  program.add_pattern("resample");
  program.add_work({.bytes = 4 * (site.count(from) + site.count(to)), .flops = 12 * site.count(to)});
  std::vector<Loop> outer = {{{}, to[0] * to[1], false}};
  std::vector<std::string> names = {"plane_number"};
  std::string between;
  for (std::size_t axis = 2; axis + 1 < to.size(); ++axis) {
    const std::string number = std::to_string(axis);
    outer.push_back({{}, to[axis], false});
    names.push_back("at_" + number);
    between += expand(
        kBetween,
        {{"i", number},
         {"in", from[axis].to_string()},
         {"place", place_of("static_cast<float>(at_" + number + ")", from[axis], to[axis], corners, false)}});
  }
  const std::string value = to.size() > 3 ? between_rows(from, 2, "") : "along(plane)";
  program.launch({.name = site.prefix + "_resample",
                  .items = product(std::span(to).first(to.size() - 1)),
                  .written = {program.buffer(node.out)},
                  .body = expand(kResample,
                                 {{"indices", unflatten("item", outer, names, site.target.cuda)},
                                  {"x", program.parameter(node.in[0])},
                                  {"y", program.parameter(node.out)},
                                  {"in_plane", product(std::span(from).subspan(2)).to_string()},
                                  {"between", between},
                                  {"columns", factor(to.back())},
                                  {"width", factor(from.back())},
                                  {"place", place_of("column", from.back(), to.back(), corners, true)},
                                  {"value", value}},
                                 program.words())});
  return Ok{};
}

}  // namespace lathe::catalog
