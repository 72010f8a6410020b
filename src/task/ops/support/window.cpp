#include "task/ops/support/window.h"

#include <algorithm>

#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

constexpr std::int64_t kMostLooks = 1 << 18;  ///< along an axis: a task's author may not be trusted

/// The product over the axes of how many different `pick(axis, position, tap)` there are, among
/// `extent(axis)`, where the tap reads inside; 0, which is less, where they are too many to look
/// at.
template <class Pick>
std::int64_t count_distinct(const Window& window, const Window::Extents& extents, Pick pick) {
  std::int64_t product = 1;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    if (window.out[axis] > kMostLooks / window.kernel[axis]) return 0;
    std::vector<bool> seen(static_cast<std::size_t>(extents[axis]), false);
    for (std::int64_t position = 0; position < window.out[axis]; ++position)
      for (std::int64_t tap = 0; tap < window.kernel[axis]; ++tap)
        if (const std::int64_t at = window.source(axis, position, tap); window.inside(axis, at))
          seen[static_cast<std::size_t>(pick(at, position, tap))] = true;
    product *= std::ranges::count(seen, true);
  }
  return product;
}

}  // namespace

std::int64_t coordinates_read(const Window& window) {
  return count_distinct(window, window.in, [](std::int64_t at, std::int64_t, std::int64_t) { return at; });
}

std::int64_t taps_used(const Window& window) {
  return count_distinct(window, window.kernel,
                        [](std::int64_t, std::int64_t, std::int64_t tap) { return tap; });
}

std::int64_t positions_used(const Window& window) {
  return count_distinct(window, window.out,
                        [](std::int64_t, std::int64_t position, std::int64_t) { return position; });
}

namespace {

Status check_each(const Attrs& attrs, std::string_view name, std::size_t axes, std::int64_t least) {
  LATHE_TRY(const auto values, fixed_integers(attrs, name, {least}));
  if (values.size() != 1 && values.size() != axes) {
    return invalid("attribute '" + std::string(name) + "' has " + std::to_string(values.size()) + " numbers",
                   "give one, or one for each of the " + std::to_string(axes) + " axes");
  }
  if (std::ranges::all_of(values, [&](std::int64_t value) { return value >= least && value <= 1 << 20; }))
    return Ok{};
  return invalid("attribute '" + std::string(name) + "' must be " + std::to_string(least) + " or more");
}

}  // namespace

std::vector<AttrRule> window_rules() {
  return {
      {"stride", AttrKind::kIntegers}, {"padding", AttrKind::kIntegers}, {"dilation", AttrKind::kIntegers}};
}

Status check_window(const Attrs& attrs, std::size_t axes) {
  LATHE_CHECK_OK(check_each(attrs, "stride", axes, 1));
  LATHE_CHECK_OK(check_each(attrs, "padding", axes, 0));
  return check_each(attrs, "dilation", axes, 1);
}

std::vector<std::int64_t> per_axis(const Attrs& attrs, std::string_view name, std::size_t axes,
                                   std::int64_t fallback) {
  Result<std::vector<std::int64_t>> values = fixed_integers(attrs, name, {fallback});
  assert(values.ok());
  if (values->size() == 1) values->resize(axes, values->front());
  return *std::move(values);
}

Expr window_positions(const Expr& in, const Expr& kernel, const AxisWindow& window) {
  const auto number = [](std::int64_t value) { return Expr::constant(value); };
  const Expr reach = number(window.dilation) * (kernel - number(1)) + number(1);
  const Expr room = in + number(2 * window.padding) - reach;
  if (!window.ceil) return (room + number(window.stride)) / number(window.stride);
  const Expr last = (in + number(window.padding - 1)) / number(window.stride);
  return Expr::apply("min", Expr::apply("cdiv", room, number(window.stride)), last) + number(1);
}

Window make_window(const Attrs& attrs, const Shape& in, const Shape& kernel, const Shape& out,
                   std::size_t axes) {
  const auto stride = per_axis(attrs, "stride", axes, 1);
  const auto padding = per_axis(attrs, "padding", axes, 0);
  const auto dilation = per_axis(attrs, "dilation", axes, 1);
  Window window;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t axis = 3 - axes + i;
    window.in[axis] = in[in.size() - axes + i];
    window.out[axis] = out[out.size() - axes + i];
    window.kernel[axis] = kernel[kernel.size() - axes + i];
    window.stride[axis] = stride[i];
    window.padding[axis] = padding[i];
    window.dilation[axis] = dilation[i];
  }
  return window;
}

}  // namespace lathe::ops
