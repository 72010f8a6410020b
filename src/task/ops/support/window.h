#pragma once

#include <array>
#include <vector>

#include "task/op.h"

namespace lathe::ops {

/// A window that slides over up to three axes; convolutions of fewer have leading extents of 1.
struct Window {
  using Extents = std::array<std::int64_t, 3>;
  Extents in{1, 1, 1};   ///< extents of what the window slides over
  Extents out{1, 1, 1};  ///< positions of the window
  Extents kernel{1, 1, 1};
  Extents stride{1, 1, 1};
  Extents padding{0, 0, 0};
  Extents dilation{1, 1, 1};

  static std::int64_t volume(const Extents& extents) { return extents[0] * extents[1] * extents[2]; }
  /// The coordinate that tap `tap` reads at position `position`; may lie outside [0, in).
  std::int64_t source(std::size_t axis, std::int64_t position, std::int64_t tap) const {
    return position * stride[axis] - padding[axis] + tap * dilation[axis];
  }
  bool inside(std::size_t axis, std::int64_t coordinate) const {
    return coordinate >= 0 && coordinate < in[axis];
  }
};

/// Coordinates inside that some tap reads at some position, over all axes.
std::int64_t coordinates_read(const Window& window);
/// Taps that read inside at some position.
std::int64_t taps_used(const Window& window);
/// Positions at which some tap reads inside.
std::int64_t positions_used(const Window& window);

/// stride, padding, dilation: lists of one number, or of one for each axis.
std::vector<AttrRule> window_rules();
/// Checks the attributes: stride and dilation positive, padding not negative, lengths 1 or `axes`.
Status check_window(const Attrs& attrs, std::size_t axes);
/// The attribute for each of `axes` axes.
std::vector<std::int64_t> per_axis(const Attrs& attrs, std::string_view name, std::size_t axes,
                                   std::int64_t fallback);

/// Number of positions along an axis: floor((in + 2 padding - dilation (kernel - 1) - 1) / stride)
/// + 1.
struct AxisWindow {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  bool ceil = false;  ///< one more position where a part of the extent would be left out, if it starts
                      ///< before the padding behind
};
Expr window_positions(const Expr& in, const Expr& kernel, const AxisWindow& window);

/// From the last `axes` extents of the three shapes.
Window make_window(const Attrs& attrs, const Shape& in, const Shape& kernel, const Shape& out,
                   std::size_t axes);

}  // namespace lathe::ops
