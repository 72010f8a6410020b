#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "task/ops/factories.h"
#include "task/ops/support/bilinear.h"
#include "task/ops/support/convolve.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

std::vector<AttrRule> conv_rules() {
  std::vector<AttrRule> rules = window_rules();
  rules.push_back({"groups", AttrKind::kInteger});
  return rules;
}

// Winograd's F(6x6, 3x3) lost up to 430 roundoffs of the root of the sum of squares below in nearly
// all of some thousand tiles of 1 to 128 channels, F(4x4, 3x3) 136; TF32 loses thousands.
constexpr double kTiledRoundoffs = 512;
constexpr std::int64_t kTileReach = 5;  // positions of a tile of six beside any of them

/// Whether tiles of outputs have algorithms that share transformed inputs.
bool has_tiled_algorithms(const Window& window) {
  constexpr Window::Extents kOnes{1, 1, 1};
  return window.stride == kOnes && window.dilation == kOnes && window.kernel != kOnes;
}

/// The largest value near each position of one axis: of what its taps read, and those of the
/// positions in a tile with it. `step` is the distance of the axis's elements.
void spread_maximum(const Window& window, std::size_t axis, std::size_t step, const double* from,
                    double* to) {
  const std::int64_t before = window.padding[axis] + kTileReach;
  const std::int64_t behind = window.kernel[axis] - 1 - window.padding[axis] + kTileReach;
  for (std::int64_t position = 0; position < window.out[axis]; ++position) {
    const std::int64_t first = std::max<std::int64_t>(0, position - before);
    const std::int64_t last = std::min(window.in[axis] - 1, position + behind);
    double largest = 0;
    for (std::int64_t i = first; i <= last; ++i)
      largest = std::max(largest, from[static_cast<std::size_t>(i) * step]);
    to[static_cast<std::size_t>(position) * step] = largest;
  }
}

/// spread_maximum() along all axes of one channel.
std::vector<double> spread_maxima(const Window& window, std::vector<double> values) {
  Window::Extents extents = window.in;
  std::vector<double> next;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto length = static_cast<std::size_t>(extents[axis]);
    std::size_t step = 1;
    for (std::size_t inner = axis + 1; inner < 3; ++inner) step *= static_cast<std::size_t>(extents[inner]);
    const std::size_t lines = values.size() / length / step;
    extents[axis] = window.out[axis];
    next.assign(static_cast<std::size_t>(Window::volume(extents)), 0);
    for (std::size_t line = 0; line < lines; ++line)
      for (std::size_t i = 0; i < step; ++i)
        spread_maximum(window, axis, step, values.data() + line * step * length + i,
                       next.data() + line * step * static_cast<std::size_t>(extents[axis]) + i);
    values.swap(next);
  }
  return values;
}

double finite_square(double value) { return std::isfinite(value) ? value * value : 0; }

/// Adds what algorithms lose that compute whole tiles of outputs from transformed inputs, as
/// Winograd's do: each output then has the roundings of all that its tile reads, those of channels
/// being independent.
void add_tile_error(const ConvSizes& sizes, const Value& x, const Value& w, const Numerics& numerics,
                    Value& out) {
  const auto plane = static_cast<std::size_t>(Window::volume(sizes.window.in));
  const auto positions = static_cast<std::size_t>(Window::volume(sizes.window.out));
  const auto taps = static_cast<std::size_t>(sizes.taps());
  const std::size_t channels = x.data.size() / plane;
  std::vector<double> near(channels * positions), weights(w.data.size() / taps);
  for_each_job(static_cast<std::int64_t>(channels), static_cast<double>(near.size()) * 16,
               [&](std::int64_t job) {
                 const auto channel = static_cast<std::size_t>(job);
                 std::vector<double> squares(plane);
                 for (std::size_t i = 0; i < plane; ++i)
                   squares[i] = finite_square(x.data[channel * plane + i]);
                 std::ranges::copy(spread_maxima(sizes.window, std::move(squares)),
                                   near.begin() + static_cast<std::ptrdiff_t>(channel * positions));
               });
  for (std::size_t i = 0; i < w.data.size(); ++i)
    weights[i / taps] = std::max(weights[i / taps], finite_square(w.data[i]));
  ConvSizes of_tiles = sizes;
  of_tiles.window = {.in = sizes.window.out, .out = sizes.window.out};
  std::vector<double> sums(out.err.size());
  convolve(of_tiles, near.data(), weights.data(), sums.data());
  const double factor = kTiledRoundoffs * numerics.unit_roundoff;
  for (std::size_t i = 0; i < sums.size(); ++i) out.err[i] += factor * std::sqrt(sums[i]);
}

/// Convolves x [N, C, ...] with weight [O, C / groups, kernel...] and adds bias [O] if given;
/// padding is zeros.
class Conv final : public NamedOp {
 public:
  Conv(std::string_view name, std::size_t axes)
      : NamedOp({name, OpClass::kStencil, 2, 3, conv_rules()}), axes_(axes) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_CHECK_OK(check_rank(context, 0, axes_ + 2));
    LATHE_CHECK_OK(check_rank(context, 1, axes_ + 2));
    LATHE_CHECK_OK(check_window(context.attrs, axes_));
    const std::vector<Expr>& x = context.in[0].shape;
    const std::vector<Expr>& weight = context.in[1].shape;
    LATHE_TRY(const Expr groups, context.attrs.expression("groups", Expr::constant(1)));
    if (!context.same(weight[1] * groups, x[1]) || !context.same(weight[0] / groups * groups, weight[0])) {
      return invalid("weight " + describe(weight) + " in " + groups.to_string() + " groups does not fit " +
                         x[1].to_string() + " input channels",
                     "the weight is [outputs, inputs / groups, kernel...]");
    }
    if (context.in.size() > 2)
      LATHE_CHECK_OK(check_shape(context, 2, {weight[0]}, "the outputs of the weight"));
    SymbolicType result{context.in[0].dtype, {x[0], weight[0]}};
    for (std::size_t i = 0; i < axes_; ++i) {
      const AxisWindow window{per_axis(context.attrs, "stride", axes_, 1)[i],
                              per_axis(context.attrs, "padding", axes_, 0)[i],
                              per_axis(context.attrs, "dilation", axes_, 1)[i]};
      result.shape.push_back(window_positions(x[i + 2], weight[i + 2], window));
    }
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    const ConvSizes sizes = sizes_of(site);
    out.shape = site.out;
    evaluate_bilinear(
        *in[0], *in[1], static_cast<double>(sizes.inputs * sizes.taps()), numerics,
        [&](const auto* x, const auto* w, auto* y) { convolve_fastest(sizes, site.products, x, w, y); }, out);
    if (!out.err.empty() && numerics.unit_roundoff > 0 && has_tiled_algorithms(sizes.window))
      add_tile_error(sizes, *in[0], *in[1], numerics, out);
    if (in.size() > 2) add_bias(*in[2], lines_along(site.out, 1).stride, numerics, out);
  }

  double flops(const OpSite& site) const override {
    const ConvSizes sizes = sizes_of(site);
    const double products = static_cast<double>(sizes.inputs * sizes.taps());
    return static_cast<double>(element_count(site.out)) * (2 * products + (site.in.size() > 2 ? 1 : 0));
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const ConvSizes sizes = sizes_of(site);
    const std::int64_t total = element_count(site.out), missing = total - demand.wanted;
    if (demand.input == 2) return spread_over(demand.wanted, total, site.out[1]);
    if (any_constant(demand)) return 0;
    const std::int64_t all = demand.input == 0
                                 ? sizes.batch * sizes.groups * sizes.inputs * coordinates_read(sizes.window)
                                 : sizes.groups * sizes.outputs * sizes.inputs * taps_used(sizes.window);
    return without(all, missing, sizes.inputs * sizes.taps());
  }

  double engine_multiplications(const OpSite& site) const override {
    return ops::engine_multiplications(sizes_of(site));
  }

  std::vector<OpMutant> mutants() const override {
    return {{"dropped_bias",
             [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               if (in.size() == 3) evaluate(site, in.first(2), Numerics{.unit_roundoff = 0}, out);
             }},
            {"shrunk_k", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const std::size_t axis = site.in[1][1] > 1 ? 1 : site.in[1].size() - 1;
               const Value weight = zero_tail(*in[1], axis, shrinkage(site.in[1][axis]));
               std::vector<const Value*> operands(in.begin(), in.end());
               operands[1] = &weight;
               evaluate(site, operands, Numerics{.unit_roundoff = 0}, out);
             }}};
  }

 private:
  ConvSizes sizes_of(const OpSite& site) const {
    const std::int64_t groups = site.attrs.integer("groups", 1);
    return {.window = make_window(site.attrs, site.in[0], site.in[1], site.out, axes_),
            .batch = site.in[0][0],
            .groups = groups,
            .inputs = site.in[1][1],
            .outputs = site.in[1][0] / groups};
  }

  std::size_t axes_;
};

}  // namespace

void add_conv(OpList& list) {
  list.push_back(std::make_unique<Conv>("conv1d", 1));
  list.push_back(std::make_unique<Conv>("conv2d", 2));
  list.push_back(std::make_unique<Conv>("conv3d", 3));
}

}  // namespace lathe::ops
