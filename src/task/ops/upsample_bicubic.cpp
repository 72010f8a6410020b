#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/resample.h"

namespace lathe::ops {
namespace {

constexpr std::size_t kCubicAxes = 2;
constexpr int kTaps = 4;
/// PyTorch's; others take -0.5.
constexpr double kSharpness = -0.75;
/// The weights' errors, in units of u, where they are computed as polynomials by Horner's rule:
/// each of the outer two, and each of the inner two.
constexpr double kOuterWeight = 48, kInnerWeight = 8;
constexpr double kWeightErrors = 2 * (kOuterWeight + kInnerWeight);
/// The most that weights along an axis come to in magnitude, and their slopes.
constexpr double kWeights = 1.375, kSlopes = 3;
/// Of the products and their sums.
constexpr double kProducts = 12;

struct CubicRules {
  bool corners = false;
  double sharpness = kSharpness;
  bool half_pixels = true;
};

/// Where a position lies along an axis: the elements around it, and their weights.
struct Cubic {
  std::array<std::int64_t, kTaps> taps{};
  std::array<double, kTaps> weights{};
  std::int64_t first = 0;  ///< of the taps, which may lie outside
  double rest = 0;         ///< between the inner two
  double error = 0;        ///< of the position, as fp32 computes it
};

Cubic place_cubic(std::int64_t i, std::int64_t in, std::int64_t out, const CubicRules& rules,
                  double unit_roundoff) {
  std::int64_t numerator = (2 * i + 1) * in - out, denominator = 2 * out;
  if (!rules.half_pixels) numerator = i * in, denominator = out;
  if (rules.corners) numerator = i * (in - 1), denominator = std::max<std::int64_t>(1, out - 1);
  const double at = static_cast<double>(numerator) / static_cast<double>(denominator);
  std::int64_t low = numerator / denominator;
  if (low * denominator > numerator) --low;
  Cubic cubic;
  cubic.first = low - 1;
  cubic.rest = static_cast<double>(numerator - low * denominator) / static_cast<double>(denominator);
  const bool is_first = numerator == 0 && rules.corners;
  if (!is_first && in != out) cubic.error = 4 * unit_roundoff * (std::fabs(at) + 1);
  const double a = rules.sharpness, t = cubic.rest;
  const auto inner = [&](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto outer = [&](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  cubic.weights = {outer(1 + t), inner(t), inner(1 - t), outer(2 - t)};
  for (int tap = 0; tap < kTaps; ++tap)
    cubic.taps[static_cast<std::size_t>(tap)] = std::clamp<std::int64_t>(cubic.first + tap, 0, in - 1);
  return cubic;
}

/// Cubic convolution of the 16 neighbours of each position of `size`; beside the edge, those at the
/// edge count for those outside.
class UpsampleBicubic final : public NamedOp {
 public:
  UpsampleBicubic()
      : NamedOp({"upsample_bicubic2d",
                 OpClass::kStencil,
                 1,
                 1,
                 {size_rule(), {"align_corners", AttrKind::kFlag}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    return resized(context, kCubicAxes);
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    interpolate(site, *in[0], numerics, cubic_rules_of(site), out);
  }

  double flops(const OpSite& site) const override {
    return 2 * kTaps * kTaps * static_cast<double>(element_count(site.out));
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const Resampling plan = make_resampling(site, kCubicAxes);
    std::int64_t read = plan.planes;
    for (std::size_t axis = 1; axis < plan.in.size(); ++axis) {
      if (plan.out[axis] > kMostPositions) return 0;
      std::set<std::int64_t> used;
      for (std::int64_t i = 0; i < plan.out[axis]; ++i) {
        const Cubic at = place_cubic(i, plan.in[axis], plan.out[axis], cubic_rules_of(site), 0);
        for (std::size_t tap = 0; tap < kTaps; ++tap)
          if (at.weights[tap] != 0) used.insert(at.taps[tap]);
      }
      read *= static_cast<std::int64_t>(used.size());
    }
    return any_constant(demand) ? 0 : without(read, element_count(site.out) - demand.wanted, kTaps * kTaps);
  }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    return in[0] > 0 ? element_count(site.out) : 0;
  }

  std::vector<OpMutant> mutants() const override {
    const auto with = [](auto change) {
      return [change](const OpSite& site, std::span<const Value* const> in, Value& out) {
        CubicRules rules = cubic_rules_of(site);
        change(rules);
        if (site.in[0] != site.out) interpolate(site, *in[0], Numerics{.unit_roundoff = 0}, rules, out);
      };
    };
    return {{"other_sharpness", with([](CubicRules& rules) { rules.sharpness = -0.5; })},
            {"other_corners", with([](CubicRules& rules) { rules.corners = !rules.corners; })},
            {"no_half_pixels", with([](CubicRules& rules) {
               rules = {false, kSharpness, false};
             })}};
  }

 private:
  static CubicRules cubic_rules_of(const OpSite& site) { return {site.attrs.flag("align_corners", false)}; }

  static void interpolate(const OpSite& site, const Value& x, const Numerics& numerics,
                          const CubicRules& rules, Value& out) {
    const Value* const in[] = {&x};
    prepare(site.out, needs_error(in, numerics), out);
    const Resampling plan = make_resampling(site, kCubicAxes);
    std::array<std::vector<Cubic>, kCubicAxes> places;
    for (std::size_t axis = 0; axis < kCubicAxes; ++axis)
      for (std::int64_t i = 0; i < plan.out[axis + 1]; ++i)
        places[axis].push_back(
            place_cubic(i, plan.in[axis + 1], plan.out[axis + 1], rules, numerics.unit_roundoff));
    std::size_t to = 0;
    for (std::int64_t plane = 0; plane < plan.planes; ++plane)
      for (const Cubic& row : places[0])
        for (const Cubic& column : places[1]) {
          const auto first = static_cast<std::size_t>(plane * plan.in_plane());
          double error = 0;
          out.data[to] = combined(plan, row, column, x, first, error);
          if (!out.err.empty()) out.err[to] = error + bound(plan, row, column, x, first, numerics);
          ++to;
        }
  }

  static double combined(const Resampling& plan, const Cubic& row, const Cubic& column, const Value& x,
                         std::size_t first, double& error) {
    double value = 0;
    for (std::size_t a = 0; a < kTaps; ++a)
      for (std::size_t b = 0; b < kTaps; ++b) {
        const double weight = row.weights[a] * column.weights[b];
        const std::size_t at = first + plan.offset(0, row.taps[a], column.taps[b]);
        value += weight * x.data[at];
        error += std::fabs(weight) * x.error_at(at);
      }
    return value;
  }

  /// Weights add up to 1 and their slopes to 0, so that along an axis an error of the position does
  /// no more than half of the slopes times what the values differ by, of one more where it reaches
  /// across an element.
  static double bound(const Resampling& plan, const Cubic& row, const Cubic& column, const Value& x,
                      std::size_t first, const Numerics& numerics) {
    const auto span = [](const Cubic& at, std::int64_t extent) {
      const std::int64_t begin = at.first - (at.rest <= at.error ? 1 : 0);
      const std::int64_t end = at.first + kTaps - 1 + (at.rest >= 1 - at.error ? 1 : 0);
      return std::pair(std::clamp<std::int64_t>(begin, 0, extent - 1),
                       std::clamp<std::int64_t>(end, 0, extent - 1));
    };
    const auto [top, bottom] = span(row, plan.in[1]);
    const auto [left, right] = span(column, plan.in[2]);
    double least = INFINITY, most = -INFINITY, error = 0;
    for (std::int64_t r = top; r <= bottom; ++r)
      for (std::int64_t c = left; c <= right; ++c) {
        const std::size_t at = first + plan.offset(0, r, c);
        least = std::min(least, x.data[at]);
        most = std::max(most, x.data[at]);
        error = std::max(error, x.error_at(at));
      }
    const double largest = std::max(std::fabs(least), std::fabs(most)) + error;
    const double moved = (row.error + column.error) * kSlopes / 2 * kWeights * (most - least + 2 * error);
    const double own = kCubicAxes * kWeightErrors * kWeights + kProducts * kWeights * kWeights;
    return moved + own * (largest > 0 ? rounding(numerics, largest) : 0);
  }
};

}  // namespace

void add_upsample_bicubic(OpList& list) { list.push_back(std::make_unique<UpsampleBicubic>()); }

}  // namespace lathe::ops
