#include <limits>

#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/shape_rules.h"
#include "task/ops/support/window.h"

namespace lathe::ops {
namespace {

enum class PoolKind { kMax, kAverage };

std::vector<AttrRule> rules(PoolKind kind) {
  std::vector<AttrRule> rules{{"kernel", AttrKind::kIntegers, true},
                              {"stride", AttrKind::kIntegers},
                              {"padding", AttrKind::kIntegers},
                              {"ceil_mode", AttrKind::kFlag}};
  rules.push_back(kind == PoolKind::kMax ? AttrRule{"dilation", AttrKind::kIntegers}
                                         : AttrRule{"count_padding", AttrKind::kFlag});
  return rules;
}

/// Pools over the last axes of x [N, C, ...]; the stride defaults to the kernel's extent. Padding
/// is -infinity for a maximum and 0 for an average, whose divisor includes it unless count_padding
/// = false. `ceil_mode` rounds the number of positions up: the last window may reach beyond the
/// padding, and what it has there does not count.
class Pool final : public NamedOp {
 public:
  Pool(std::string_view name, PoolKind kind, std::size_t axes)
      : NamedOp({name, OpClass::kStencil, 1, 1, rules(kind)}), kind_(kind), axes_(axes) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_CHECK_OK(check_rank(context, 0, axes_ + 2));
    LATHE_CHECK_OK(check_window(context.attrs, axes_));
    LATHE_TRY(const auto given, fixed_integers(context.attrs, "kernel", {1}));
    if (given.size() != 1 && given.size() != axes_) return invalid("attribute 'kernel' has a wrong length");
    const auto kernel = per_axis(context.attrs, "kernel", axes_, 1);
    const auto stride = strides(context.attrs);
    const auto padding = per_axis(context.attrs, "padding", axes_, 0);
    const auto dilation = per_axis(context.attrs, "dilation", axes_, 1);
    const bool ceil = context.attrs.flag("ceil_mode", false);
    SymbolicType result = context.in[0];
    for (std::size_t i = 0; i < axes_; ++i) {
      if (kernel[i] < 1 || kernel[i] > 1 << 20) return invalid("attribute 'kernel' must be 1 or more");
      if (2 * padding[i] > dilation[i] * (kernel[i] - 1) + 1)
        return invalid("attribute 'padding' must be at most half of what a window spans");
      Expr& extent = result.shape[i + 2];
      extent =
          window_positions(extent, Expr::constant(kernel[i]), {stride[i], padding[i], dilation[i], ceil});
    }
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    const Window window = window_of(site);
    const bool count_padding = site.attrs.flag("count_padding", true);
    const std::int64_t plane = Window::volume(window.in);
    const std::int64_t positions = Window::volume(window.out);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(out.data.size()); ++i) {
      const auto to = static_cast<std::size_t>(i);
      const Taps taps{*in[0], window, i / positions * plane, i % positions};
      double error = 0;
      out.data[to] =
          kind_ == PoolKind::kMax ? maximum(taps, error) : average(taps, count_padding, numerics, error);
      if (!out.err.empty()) out.err[to] = error;
    }
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const Window window = window_of(site);
    const std::int64_t missing = element_count(site.out) - demand.wanted;
    return without(site.in[0][0] * site.in[0][1] * coordinates_read(window), missing,
                   Window::volume(window.kernel));
  }

  double flops(const OpSite& site) const override {
    double taps = 1;
    for (const std::int64_t extent : per_axis(site.attrs, "kernel", axes_, 1))
      taps *= static_cast<double>(extent);
    return taps * static_cast<double>(element_count(site.out));
  }

 private:
  struct Taps {
    const Value& x;
    const Window& window;
    std::int64_t plane;     ///< offset of the channel
    std::int64_t position;  ///< flat index of the window's position

    Window::Extents place() const {
      const Window::Extents& out = window.out;
      return {position / (out[1] * out[2]), position / out[2] % out[1], position % out[2]};
    }
    /// The taps inside the padded extents.
    std::int64_t padded() const {
      const Window::Extents at = place();
      std::int64_t taps = 1;
      for (std::size_t axis = 0; axis < at.size(); ++axis)
        taps *= std::min(window.kernel[axis],
                         window.in[axis] + window.padding[axis] - window.source(axis, at[axis], 0));
      return taps;
    }

    template <class Visit>
    void visit(Visit visit_element) const {
      const Window::Extents at = place();
      for (std::int64_t a = 0; a < window.kernel[0]; ++a) {
        const std::int64_t d = window.source(0, at[0], a);
        for (std::int64_t b = 0; b < window.kernel[1]; ++b) {
          const std::int64_t h = window.source(1, at[1], b);
          for (std::int64_t c = 0; c < window.kernel[2]; ++c) {
            const std::int64_t w = window.source(2, at[2], c);
            if (!window.inside(0, d) || !window.inside(1, h) || !window.inside(2, w)) continue;
            visit_element(static_cast<std::size_t>(plane + (d * window.in[1] + h) * window.in[2] + w));
          }
        }
      }
    }
  };

  Window window_of(const OpSite& site) const {
    Window window =
        make_window(site.attrs, site.in[0], per_axis(site.attrs, "kernel", axes_, 1), site.out, axes_);
    const auto stride = strides(site.attrs);
    std::copy(stride.begin(), stride.end(), window.stride.end() - static_cast<std::ptrdiff_t>(axes_));
    return window;
  }

  std::vector<std::int64_t> strides(const Attrs& attrs) const {
    const auto kernel = per_axis(attrs, "kernel", axes_, 1);
    return attrs.has("stride") ? per_axis(attrs, "stride", axes_, 1) : kernel;
  }

  static double maximum(const Taps& taps, double& error) {
    double result = -std::numeric_limits<double>::infinity();
    taps.visit([&](std::size_t i) {
      const double value = taps.x.data[i];
      if (value > result || std::isnan(value)) result = value;
      error = std::max(error, taps.x.error_at(i));
    });
    return result;
  }

  static double average(const Taps& taps, bool count_padding, const Numerics& numerics, double& error) {
    double sum = 0;
    SumBound bound;
    taps.visit([&](std::size_t i) {
      sum += taps.x.data[i];
      bound.add(taps.x.data[i], taps.x.error_at(i));
    });
    const double divisor = count_padding ? static_cast<double>(taps.padded()) : bound.count;
    error = bound.total(numerics) / divisor + 2 * rounding(numerics, sum / divisor);
    return sum / divisor;
  }

  PoolKind kind_;
  std::size_t axes_;
};

}  // namespace

void add_pool(OpList& list) {
  list.push_back(std::make_unique<Pool>("max_pool1d", PoolKind::kMax, 1));
  list.push_back(std::make_unique<Pool>("max_pool2d", PoolKind::kMax, 2));
  list.push_back(std::make_unique<Pool>("max_pool3d", PoolKind::kMax, 3));
  list.push_back(std::make_unique<Pool>("avg_pool1d", PoolKind::kAverage, 1));
  list.push_back(std::make_unique<Pool>("avg_pool2d", PoolKind::kAverage, 2));
  list.push_back(std::make_unique<Pool>("avg_pool3d", PoolKind::kAverage, 3));
}

}  // namespace lathe::ops
