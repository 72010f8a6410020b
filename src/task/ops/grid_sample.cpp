#include <array>
#include <cmath>

#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// How places become values.
struct SampleRules {
  bool nearest = false;
  bool border = false;   ///< places outside are moved to the edge; else there are zeros around
  bool corners = false;  ///< -1 and 1 are the centres of the outermost elements, not their edges
  bool swapped = false;  ///< the first coordinate is taken for the row: a mistake
};

SampleRules sample_rules_of(const OpSite& site) {
  return {site.attrs.text("mode", "bilinear") == "nearest", site.attrs.text("padding", "zeros") == "border",
          site.attrs.flag("align_corners", false)};
}

/// A coordinate along an axis, in elements.
struct Along {
  double at = 0;
  double error = 0;
  std::int64_t low = 0;  ///< the element before it
};

/// Beyond this, positions are outside however they are rounded.
constexpr double kFarOutside = 0x1p30;

Along place_along(double coordinate, double error, std::int64_t extent, const SampleRules& rules,
                  double unit_roundoff) {
  const auto n = static_cast<double>(extent);
  Along along;
  along.at = rules.corners ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
  along.error = error * n / 2 + 2 * unit_roundoff * ((std::fabs(coordinate) + 1) * n + 1);
  if (rules.border) along.at = std::clamp(along.at, 0.0, n - 1);
  along.at = std::clamp(along.at, -kFarOutside, kFarOutside);
  along.low = static_cast<std::int64_t>(std::floor(along.at));
  return along;
}

/// Two axes of one channel, and what lies around it.
class Plane {
 public:
  Plane(const Value& x, const OpSite& site, std::size_t first, const SampleRules& rules)
      : x_(x), first_(first), height_(site.in[0][2]), width_(site.in[0][3]), border_(rules.border) {}

  double value(std::int64_t row, std::int64_t column) const { return read(x_.data, row, column); }
  double error(std::int64_t row, std::int64_t column) const {
    return x_.err.empty() ? 0 : read(x_.err, row, column);
  }
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

 private:
  double read(const std::vector<double>& from, std::int64_t row, std::int64_t column) const {
    if (border_) {
      row = std::clamp<std::int64_t>(row, 0, height_ - 1);
      column = std::clamp<std::int64_t>(column, 0, width_ - 1);
    }
    if (row < 0 || row >= height_ || column < 0 || column >= width_) return 0;
    return from[first_ + static_cast<std::size_t>(row * width_ + column)];
  }

  const Value& x_;
  std::size_t first_;
  std::int64_t height_, width_;
  bool border_;
};

/// The elements that a coordinate may lie beside, wherever its error moves it.
struct Reach {
  std::int64_t begin = 0, end = 0;

  Reach(const Along& along, std::int64_t extent) {
    const auto limit = static_cast<double>(extent);
    begin = static_cast<std::int64_t>(std::clamp(std::floor(along.at - along.error), -1.0, limit));
    end = static_cast<std::int64_t>(std::clamp(std::floor(along.at + along.error) + 1, -1.0, limit));
  }
};

/// Interpolates an image x [N, C, H, W] at places [N, P, Q, 2], each a column and a row in [-1, 1]
/// (torch.nn.functional.grid_sample).
class GridSample final : public NamedOp {
 public:
  GridSample()
      : NamedOp({"grid_sample",
                 OpClass::kOther,
                 2,
                 2,
                 {{"mode", AttrKind::kText, false, {"bilinear", "nearest"}},
                  {"padding", AttrKind::kText, false, {"zeros", "border"}},
                  {"align_corners", AttrKind::kFlag}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_CHECK_OK(check_rank(context, 0, 4));
    LATHE_CHECK_OK(check_rank(context, 1, 4));
    const SymbolicType &x = context.in[0], &places = context.in[1];
    if (!context.same(x.shape[0], places.shape[0]) || !context.same(places.shape[3], Expr::constant(2)))
      return invalid("input 2 must have the shape [N, P, Q, 2] with the N of input 1, got " +
                     describe(places));
    return SymbolicType{x.dtype, {x.shape[0], x.shape[1], places.shape[1], places.shape[2]}};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    sample(site, in, numerics, sample_rules_of(site), out);
  }

  double flops(const OpSite& site) const override { return 8 * static_cast<double>(element_count(site.out)); }

  /// All places may be one; of a place that one coordinate puts outside, the other says nothing.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const bool is_point = site.in[0][2] < 2 && site.in[0][3] < 2;
    if (demand.input == 0 || is_point || any_constant(demand) || demand.wanted <= 0) return 0;
    return (demand.wanted + site.out[1] - 1) / site.out[1];
  }

  std::vector<OpMutant> mutants() const override {
    const auto with = [](auto change) {
      return [change](const OpSite& site, std::span<const Value* const> in, Value& out) {
        SampleRules rules = sample_rules_of(site);
        change(rules);
        sample(site, in, Numerics{.unit_roundoff = 0}, rules, out);
      };
    };
    return {{"other_corners", with([](SampleRules& rules) { rules.corners = !rules.corners; })},
            {"swapped_coordinates", with([](SampleRules& rules) { rules.swapped = true; })},
            {"other_padding",
             [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               SampleRules rules = sample_rules_of(site);
               if (!reaches_outside(site, *in[1], rules)) return;
               rules.border = !rules.border;
               sample(site, in, Numerics{.unit_roundoff = 0}, rules, out);
             }},
            {"other_mode", with([](SampleRules& rules) { rules.nearest = !rules.nearest; })}};
  }

 private:
  /// Whether padding matters anywhere: by more than a rounding.
  static bool reaches_outside(const OpSite& site, const Value& places, SampleRules rules) {
    rules.border = false;
    const double beside = rules.nearest ? 0.51 : 0.01;
    for (std::size_t i = 0; i < places.data.size(); ++i) {
      const std::int64_t extent = site.in[0][i % 2 == 0 ? 3 : 2];
      const double at = place_along(places.data[i], 0, extent, rules, 0).at;
      if (at < -beside || at > static_cast<double>(extent - 1) + beside) return true;
    }
    return false;
  }

  static void sample(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                     const SampleRules& rules, Value& out) {
    const Value &x = *in[0], &places = *in[1];
    prepare(site.out, needs_error(in, numerics), out);
    const auto channels = static_cast<std::size_t>(site.out[1]);
    const auto plane = static_cast<std::size_t>(site.in[0][2] * site.in[0][3]);
    const auto count = static_cast<std::size_t>(site.out[2] * site.out[3]);
    for (std::size_t image = 0; image < static_cast<std::size_t>(site.out[0]); ++image)
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = (image * count + i) * 2;
        const auto along = [&](std::size_t axis, std::int64_t extent) {
          const std::size_t from = at + (rules.swapped ? 1 - axis : axis);
          return place_along(places.data[from], places.error_at(from), extent, rules, numerics.unit_roundoff);
        };
        const Along column = along(0, site.in[0][3]), row = along(1, site.in[0][2]);
        for (std::size_t channel = 0; channel < channels; ++channel) {
          const Plane from(x, site, (image * channels + channel) * plane, rules);
          const std::size_t to = (image * channels + channel) * count + i;
          out.data[to] = rules.nearest ? nearest(from, row, column) : interpolated(from, row, column);
          if (out.err.empty()) continue;
          out.err[to] = rules.nearest ? nearest_error(from, row, column, out.data[to])
                                      : interpolation_error(from, row, column, numerics);
        }
      }
  }

  static double interpolated(const Plane& x, const Along& row, const Along& column) {
    const double down = row.at - static_cast<double>(row.low);
    const double right = column.at - static_cast<double>(column.low);
    const auto across = [&](std::int64_t r) {
      return (1 - right) * x.value(r, column.low) + right * x.value(r, column.low + 1);
    };
    return (1 - down) * across(row.low) + down * across(row.low + 1);
  }

  /// The slope along each axis is at most the largest difference of neighbours that the place may
  /// lie between. Weights, products and sums are rounded, also as x + w (y - x).
  static double interpolation_error(const Plane& x, const Along& row, const Along& column,
                                    const Numerics& numerics) {
    const Reach rows(row, x.height()), columns(column, x.width());
    double across = 0, down = 0, largest = 0, error = 0;
    for (std::int64_t r = rows.begin; r <= rows.end; ++r)
      for (std::int64_t c = columns.begin; c <= columns.end; ++c) {
        const double here = x.value(r, c);
        largest = std::max(largest, std::fabs(here));
        error = std::max(error, x.error(r, c));
        if (c < columns.end) across = std::max(across, std::fabs(x.value(r, c + 1) - here));
        if (r < rows.end) down = std::max(down, std::fabs(x.value(r + 1, c) - here));
      }
    const double moved = column.error > 0 || row.error > 0 ? column.error * across + row.error * down : 0;
    const double steeper = 2 * error * (column.error + row.error);
    return error + moved + steeper + 8 * (largest > 0 ? rounding(numerics, largest) : 0);
  }

  static double nearest(const Plane& x, const Along& row, const Along& column) {
    return x.value(std::lrint(row.at), std::lrint(column.at));
  }

  /// Ties go to the even element, but a place is rounded before.
  static double nearest_error(const Plane& x, const Along& row, const Along& column, double y) {
    const auto first = [](const Along& along, std::int64_t extent) {
      return std::lrint(std::clamp(along.at - along.error, -1.0, static_cast<double>(extent)));
    };
    const auto last = [](const Along& along, std::int64_t extent) {
      return std::lrint(std::clamp(along.at + along.error, -1.0, static_cast<double>(extent)));
    };
    double error = 0;
    for (std::int64_t r = first(row, x.height()); r <= last(row, x.height()); ++r)
      for (std::int64_t c = first(column, x.width()); c <= last(column, x.width()); ++c)
        error = std::max(error, std::fabs(x.value(r, c) - y) + x.error(r, c));
    return error;
  }
};

}  // namespace

void add_grid_sample(OpList& list) { list.push_back(std::make_unique<GridSample>()); }

}  // namespace lathe::ops
