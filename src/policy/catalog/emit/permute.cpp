#include <algorithm>
#include <array>
#include <string_view>

#include "policy/catalog/emit/patterns.h"

namespace lathe::catalog {
namespace {

/// One output axis, after neighbours that stay neighbours were merged.
struct Axis {
  Expr extent;
  Expr from_stride;
  Expr to_stride;
};

std::vector<Axis> merged_axes(const Site& site) {
  const Primitive& node = site.node(0);
  const std::vector<Expr>& from = site.graph().type_of(node.in[0]).shape;
  const std::vector<Expr>& to = node.type.shape;
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto source = static_cast<std::size_t>(node.axes[i]);
    const Axis axis{to[i], product(std::span(from).subspan(source + 1)),
                    product(std::span(to).subspan(i + 1))};
    if (i > 0 && node.axes[i] == node.axes[i - 1] + 1) {
      axes.back() = {axes.back().extent * axis.extent, axis.from_stride, axis.to_stride};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

std::string times(const std::string& index, const Expr& stride) {
  return is_one(stride) ? index : index + " * " + factor(stride);
}

/// On a GPU: tiles turn round in shared memory (lathe/cuda/turn.cuh).
struct TurnedTile {
  const Axis& inner;  ///< along which the input lies
  const Axis& last;   ///< along which the output lies
  std::string from, to;
  std::vector<Loop> loops;  ///< over all other axes
  std::vector<std::string> names;
};

constexpr double kManyElements = 1 << 22;  // whose larger tiles fill a device

void emit_turned_tiles(const Site& site, const TurnedTile& tile) {
  const std::string p = tile.inner.extent.to_string(), n = tile.last.extent.to_string();
  const std::string x = site.program.parameter(site.node(0).in[0]),
                    y = site.program.parameter(site.node(0).out);
  const bool small = headline_count(site.program.graph(), site.node(0).type.shape) < kManyElements;
  const int columns = site.knob("tile", {32, 64, 128}, small ? 32 : 64);
  const int rows = site.knob(
      "rows", columns == 128 ? std::vector<int>{32, 64} : std::vector<int>{32, 64, 128}, small ? 32 : 64);
  std::vector<int> sizes;
  for (const int count : {128, 256, 512})
    if (count <= rows * columns / 4) sizes.push_back(count);
  const int threads = site.knob("threads", sizes, 256);
  const std::string side = std::to_string(columns), height = std::to_string(rows);
  const bool down = site.knob("order", {0, 1}, 0) == 1;
  static constexpr std::array<std::string_view, 4> kHints = {
      "kept_in_cache(), kept_in_cache()", "past_cache(), past_cache()", "last_in_cache(), kept_in_cache()",
      "last_in_cache(), past_cache()"};
  const auto hint = static_cast<std::size_t>(site.knob("stream", {0, 2, 1, 3}, 1));
  const std::string across = "cdiv(" + n + ", " + height + ")", deep = "cdiv(" + p + ", " + side + ")";
  std::string code = "const int64_t across = " + across + ", deep = " + deep + ", tiles = deep * across;\n";
  code += "const int64_t outer = quotient(item, tiles), number = item - outer * tiles;\n";
  code += unflatten("outer", tile.loops, tile.names, true);
  const std::string fast = down ? "p0" : "i0", slow = down ? "i0" : "p0", count = down ? "deep" : "across";
  code += "const int64_t " + slow + " = quotient(number, " + count + ") * " + (down ? height : side) + ", " +
          fast + " = residue(number, " + count + ") * " + (down ? side : height) + ";\n";
  const auto left = [&](const std::string& extent, const std::string& begin, const std::string& most) {
    const std::string rest = extent + " - " + begin;
    return site.program.fixed() ? "(" + extent + ") % " + most + " == 0 ? " + most + " : " + rest : rest;
  };
  code += "const bool wide = (" + p + ") % 4 == 0 && (" + n + ") % 4 == 0" +
          (site.program.fixed() ? "" : " && is_aligned<16>(" + x + ") && is_aligned<16>(" + y + ")") + ";\n";
  code += "turn_tile<" + height + ", " + side + ", " + std::to_string(threads) + ">(wide, Turn{" + x + " + " +
          tile.from + " + " + times("i0", tile.last.from_stride) + " + p0, " +
          tile.last.from_stride.to_string() + ", " + y + " + " + tile.to + " + " +
          times("p0", tile.inner.to_stride) + " + i0, " + tile.inner.to_stride.to_string() + ", " +
          left(n, "i0", height) + ", " + left(p, "p0", side) + "}, " + std::string(kHints[hint]) + ");\n";
  std::vector<Expr> extents;
  for (const Loop& loop : tile.loops) extents.push_back(loop.extent);
  const Expr tiles = Expr::apply("cdiv", tile.inner.extent, Expr::constant(columns)) *
                     Expr::apply("cdiv", tile.last.extent, Expr::constant(rows));
  site.program.launch_blocks(site.prefix + "_transpose", product(extents) * tiles, threads,
                             {site.program.buffer(site.node(0).out)}, code);
}

/// On a GPU: one thread an element, neighbours in the output and, along the last axis, in the input too.
void emit_moved_elements(const Site& site, const std::vector<Axis>& axes) {
  constexpr int kThreads = 256;
  std::vector<Loop> loops;
  std::vector<std::string> names;
  std::string from = "0";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    names.push_back("ix" + std::to_string(i));
    loops.push_back({{}, axes[i].extent, false});
    from += " + " + times(names.back(), axes[i].from_stride);
  }
  const Expr count = product(site.node(0).type.shape);
  const std::string code = "const int64_t at = item * " + std::to_string(kThreads) +
                           " + threadIdx.x;\nif (at >= " + count.to_string() + ") return;\n" +
                           unflatten("at", loops, names, true) + site.program.parameter(site.node(0).out) +
                           "[at] = " + site.program.parameter(site.node(0).in[0]) + "[" + from + "];\n";
  site.program.launch_blocks(site.prefix + "_rows", Expr::apply("cdiv", count, Expr::constant(kThreads)),
                             kThreads, {site.program.buffer(site.node(0).out)}, code);
}

}  // namespace

/// Rows are copied when the last axis stays last; else blocks of kLanes x kLanes are transposed in registers
/// between the output's last axis and the input's.
Status emit_permute(const Site& site) {
  const Primitive& node = site.node(0);
  const std::vector<Axis> axes = merged_axes(site);
  Work work;
  work.bytes = 8 * headline_count(site.program.graph(), node.type.shape);
  site.program.add_work(work);
  site.program.add_pattern("transpose");
  const auto inner = std::ranges::find_if(axes, [](const Axis& axis) { return is_one(axis.from_stride); });
  const bool rows = is_one(axes.back().from_stride) || inner == axes.end();
  if (rows && site.program.cuda()) return emit_moved_elements(site, axes), Ok{};
  std::vector<Loop> loops;
  std::vector<std::string> names;
  std::vector<Expr> extents;
  std::string from = "0", to = "0";
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
    if (!rows && &axes[i] == &*inner) continue;
    names.push_back("ix" + std::to_string(i));
    loops.push_back({{}, axes[i].extent, false});
    extents.push_back(axes[i].extent);
    from += " + " + times(names.back(), axes[i].from_stride);
    to += " + " + times(names.back(), axes[i].to_stride);
  }
  const std::string x = site.program.parameter(node.in[0]), y = site.program.parameter(node.out);
  const std::string n = axes.back().extent.to_string();
  std::string code = "for (int64_t item = begin; item < end; ++item) {\n";
  if (rows) {
    std::string copy = row_copier(site) + "(" + y + " + " + to + ", " + x + " + " + from + ", " + n + ");\n";
    if (!loops.empty()) {  // finding a row takes longer than copying a short one
      copy = "for (int64_t " + names.back() + " = 0; " + names.back() + " < " + extents.back().to_string() +
             "; ++" + names.back() + ")\n" + copy;
      loops.pop_back();
      names.pop_back();
      extents.pop_back();
    }
    code += unflatten("item", loops, names) + copy + "}\n";
    site.program.launch(site.prefix + "_rows", product(extents), {site.program.buffer(node.out)}, code);
    return Ok{};
  }
  if (site.program.cuda()) {
    emit_turned_tiles(site, {*inner, axes.back(), from, to, loops, names});
    return Ok{};
  }
  const int block = 16 * site.knob("block", {1, 2, 4, 8}, 2);
  const bool down = site.knob("order", {0, 1}, 0) == 1;
  const std::string p = inner->extent.to_string();
  const Expr items = product(extents) * Expr::apply("cdiv", inner->extent, Expr::constant(block));
  code = "constexpr int64_t kBlock = " + std::to_string(block) + ";\n" + code;
  code +=
      "const int64_t outer = item / cdiv(" + p + ", kBlock), p0 = item % cdiv(" + p + ", kBlock) * kBlock;\n";
  if (!loops.empty()) code += unflatten("outer", loops, names);
  const std::string over_rows = "for (int64_t i = 0; i < " + n + "; i += kLanes)\n";
  const std::string over_columns = "for (int64_t p = p0; p < min(p0 + kBlock, " + p + "); p += kLanes)\n";
  code += down ? over_columns + over_rows : over_rows + over_columns;
  code += "transpose_block(" + x + " + " + from + " + " + times("i", axes.back().from_stride) + " + p, " +
          axes.back().from_stride.to_string() + ", " + y + " + " + to + " + " + times("p", inner->to_stride) +
          " + i, " + inner->to_stride.to_string() + ", min(kLanes, " + n + " - i), min(kLanes, " + p +
          " - p));\n}\n";
  site.program.launch(site.prefix + "_transpose", items, {site.program.buffer(node.out)}, code);
  return Ok{};
}

}  // namespace lathe::catalog
