#include <cmath>
#include <set>

#include "task/ops/support/move.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/resample.h"

namespace lathe::ops {
namespace {

/// Whether `a` and `b` give other places for some position of some axis.
template <class A, class B>
bool differ(const Resampling& plan, A a, B b) {
  for (std::size_t axis = 0; axis < plan.in.size(); ++axis)
    for (std::int64_t i = 0; i < plan.out[axis]; ++i)
      if (a(i, plan.in[axis], plan.out[axis]) != b(i, plan.in[axis], plan.out[axis])) return true;
  return false;
}

/// Each position of `size` takes the element at floor(i in / out), computed without rounding, or as
/// PyTorch does, in fp32 from a rounded in / out: where that leads to another element, either is
/// right.
class Nearest final : public MoveOp {
 public:
  Nearest(std::string_view name, std::size_t axes)
      : MoveOp({name, OpClass::kMove, 1, 1, {size_rule()}}), axes_(axes) {}

  Result<SymbolicType> infer(const InferContext& context) const override { return resized(context, axes_); }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    take(site, in, rounded_down, out);
    if (!differ(make_resampling(site, axes_), rounded_down, by_rounded_factor)) return;
    Value other;
    take(site, in, by_rounded_factor, other);
    out.err.resize(out.data.size());
    for (std::size_t i = 0; i < out.data.size(); ++i)
      if (other.data[i] != out.data[i])
        out.err[i] = std::max(out.err[i], std::fabs(other.data[i] - out.data[i]) + other.error_at(i));
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const Resampling plan = make_resampling(site, axes_);
    std::int64_t taken = plan.planes;
    for (std::size_t axis = 0; axis < plan.in.size(); ++axis)
      taken *= std::min(plan.in[axis], plan.out[axis]);
    const std::int64_t served = most_served(plan);
    return std::min(taken, (std::max<std::int64_t>(0, demand.wanted) + served - 1) / served);
  }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    return std::min(element_count(site.out), in[0] * most_served(make_resampling(site, axes_)));
  }

  std::vector<OpMutant> mutants() const override {
    const auto with = [this](auto source) {
      return [this, source](const OpSite& site, std::span<const Value* const> in, Value& out) {
        if (differ(make_resampling(site, axes_), rounded_down, source)) take(site, in, source, out);
      };
    };
    return {{"rounded", with([](std::int64_t i, std::int64_t from, std::int64_t to) {
               return std::min((2 * i * from + to) / (2 * to), from - 1);
             })},
            {"half_a_pixel_on", with([](std::int64_t i, std::int64_t from, std::int64_t to) {
               return (2 * i + 1) * from / (2 * to);
             })}};
  }

 private:
  static std::int64_t rounded_down(std::int64_t i, std::int64_t from, std::int64_t to) {
    return i * from / to;
  }

  static std::int64_t by_rounded_factor(std::int64_t i, std::int64_t from, std::int64_t to) {
    const float factor = static_cast<float>(from) / static_cast<float>(to);
    return std::min(static_cast<std::int64_t>(static_cast<float>(i) * factor), from - 1);
  }

  /// Positions that take the same element, at most.
  static std::int64_t most_served(const Resampling& plan) {
    std::int64_t most = 1;
    for (std::size_t axis = 0; axis < plan.in.size(); ++axis)
      most *= (plan.out[axis] + plan.in[axis] - 1) / plan.in[axis];
    return most;
  }

  template <class Source>
  void take(const OpSite& site, std::span<const Value* const> in, Source source, Value& out) const {
    prepare_move(site, in, out);
    const Resampling plan = make_resampling(site, axes_);
    const auto at = [&](std::size_t axis, std::int64_t i) {
      return source(i, plan.in[axis], plan.out[axis]);
    };
    std::size_t to = 0;
    for (std::int64_t plane = 0; plane < plan.planes; ++plane)
      for (std::int64_t a = 0; a < plan.out[0]; ++a)
        for (std::int64_t b = 0; b < plan.out[1]; ++b)
          for (std::int64_t c = 0; c < plan.out[2]; ++c, ++to) {
            const std::size_t from =
                static_cast<std::size_t>(plane * plan.in_plane()) + plan.offset(at(0, a), at(1, b), at(2, c));
            out.data[to] = in[0]->data[from];
            if (!out.err.empty()) out.err[to] = in[0]->err[from];
          }
  }

  std::size_t axes_;
};

/// Where a position lies between two elements of an axis.
struct Between {
  std::int64_t low = 0;
  std::int64_t high = 0;
  double weight = 0;  ///< of the higher one
  double error = 0;   ///< of the position, as fp32 computes it
};

enum class Rule { kHalfPixels, kCorners, kNoHalf };

/// PyTorch's rules: pixels are squares, (i + 1/2) in / out - 1/2, not before the first one's
/// centre; or points of which the first and the last stay where they are, i (in - 1) / (out - 1).
Between place(std::int64_t i, std::int64_t in, std::int64_t out, Rule rule, double unit_roundoff) {
  std::int64_t numerator = i * in, denominator = out;
  if (rule == Rule::kCorners) numerator = i * (in - 1), denominator = std::max<std::int64_t>(1, out - 1);
  if (rule == Rule::kHalfPixels)
    numerator = std::max<std::int64_t>(0, (2 * i + 1) * in - out), denominator = 2 * out;
  Between result;
  result.low = std::min(numerator / denominator, in - 1);
  result.high = std::min(result.low + 1, in - 1);
  const auto rest = numerator - result.low * denominator;
  if (result.high > result.low) result.weight = static_cast<double>(rest) / static_cast<double>(denominator);
  const bool is_first = numerator == 0 && (rule != Rule::kHalfPixels || (2 * i + 1) * in < out);
  const double at = static_cast<double>(numerator) / static_cast<double>(denominator);
  if (!is_first && in != out) result.error = 4 * unit_roundoff * (at + 1);
  return result;
}

/// Interpolates between the 2, 4 or 8 neighbours of each position of `size`.
class Linear final : public NamedOp {
 public:
  Linear(std::string_view name, std::size_t axes)
      : NamedOp({name, OpClass::kStencil, 1, 1, {size_rule(), {"align_corners", AttrKind::kFlag}}}),
        axes_(axes) {}

  Result<SymbolicType> infer(const InferContext& context) const override { return resized(context, axes_); }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    interpolate(site, in, numerics, rule_of(site), out);
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const Resampling plan = make_resampling(site, axes_);
    std::int64_t read = plan.planes, each = 1;
    for (std::size_t axis = 0; axis < plan.in.size(); ++axis) {
      if (plan.out[axis] > kMostPositions) return 0;
      std::set<std::int64_t> used;
      for (std::int64_t i = 0; i < plan.out[axis]; ++i) {
        const Between at = place(i, plan.in[axis], plan.out[axis], rule_of(site), 0);
        used.insert(at.low);
        if (at.weight > 0) used.insert(at.high);
      }
      read *= static_cast<std::int64_t>(used.size());
      each *= plan.in[axis] > 1 ? 2 : 1;
    }
    return without(read, element_count(site.out) - demand.wanted, each);
  }

  double flops(const OpSite& site) const override {
    return std::exp2(static_cast<double>(axes_ + 1)) * static_cast<double>(element_count(site.out));
  }

  std::vector<OpMutant> mutants() const override {
    const auto with = [this](auto rule) {
      return [this, rule](const OpSite& site, std::span<const Value* const> in, Value& out) {
        const Rule wrong = rule(rule_of(site));
        const auto by = [](Rule used) {
          return [used](std::int64_t i, std::int64_t from, std::int64_t to) {
            const Between at = place(i, from, to, used, 0);
            return std::pair(at.low, at.weight);
          };
        };
        if (differ(make_resampling(site, axes_), by(rule_of(site)), by(wrong)))
          interpolate(site, in, Numerics{.unit_roundoff = 0}, wrong, out);
      };
    };
    return {{"other_corners",
             with([](Rule rule) { return rule == Rule::kCorners ? Rule::kHalfPixels : Rule::kCorners; })},
            {"no_half_pixels", with([](Rule) { return Rule::kNoHalf; })}};
  }

 private:
  static Rule rule_of(const OpSite& site) {
    return site.attrs.flag("align_corners", false) ? Rule::kCorners : Rule::kHalfPixels;
  }

  using Place = std::array<Between, 3>;

  void interpolate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics, Rule rule,
                   Value& out) const {
    prepare(site.out, needs_error(in, numerics), out);
    const Resampling plan = make_resampling(site, axes_);
    std::array<std::vector<Between>, 3> places;
    for (std::size_t axis = 0; axis < places.size(); ++axis)
      for (std::int64_t i = 0; i < plan.out[axis]; ++i)
        places[axis].push_back(place(i, plan.in[axis], plan.out[axis], rule, numerics.unit_roundoff));
    std::size_t to = 0;
    for (std::int64_t plane = 0; plane < plan.planes; ++plane)
      for (const Between& a : places[0])
        for (const Between& b : places[1])
          for (const Between& c : places[2]) {
            const auto first = static_cast<std::size_t>(plane * plan.in_plane());
            const Place at{a, b, c};
            double error = 0;
            out.data[to] = combine(plan, at, *in[0], first, error);
            if (!out.err.empty())
              out.err[to] = error + moved(plan, at, *in[0], first) + own(plan, at, *in[0], first, numerics);
            ++to;
          }
  }

  /// Calls visit(element, weight) for the neighbours that count.
  template <class Visit>
  static void visit(const Resampling& plan, const Place& at, std::size_t first, Visit visit_element) {
    for (int corner = 0; corner < 8; ++corner) {
      double weight = 1;
      Axes index{};
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const bool high = (corner >> axis & 1) != 0;
        weight *= high ? at[axis].weight : 1 - at[axis].weight;
        index[axis] = high ? at[axis].high : at[axis].low;
      }
      if (weight > 0) visit_element(first + plan.offset(index[0], index[1], index[2]), weight);
    }
  }

  static double combine(const Resampling& plan, const Place& at, const Value& x, std::size_t first,
                        double& error) {
    double value = 0;
    visit(plan, at, first, [&](std::size_t i, double weight) {
      value += weight * x.data[i];
      error += weight * x.error_at(i);
    });
    return value;
  }

  /// The roundings of the weights, the products and the sums along each axis, also as x + w (y -
  /// x).
  double own(const Resampling& plan, const Place& at, const Value& x, std::size_t first,
             const Numerics& numerics) const {
    double largest = 0;
    int neighbours = 0;
    visit(plan, at, first, [&](std::size_t i, double) {
      largest = std::max(largest, std::fabs(x.data[i]));
      ++neighbours;
    });
    const bool is_copy =
        neighbours == 1 && std::ranges::all_of(at, [](const Between& b) { return b.error == 0; });
    return is_copy ? 0 : 4 * static_cast<double>(axes_) * rounding(numerics, largest);
  }

  /// What an error of the position does: the slope along each axis is the difference of neighbours,
  /// of the next ones too where it reaches across an element.
  static double moved(const Resampling& plan, const Place& at, const Value& x, std::size_t first) {
    double total = 0;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const Between& here = at[axis];
      if (here.error == 0) continue;
      std::int64_t begin = here.low, end = here.high;
      if (here.weight <= here.error) begin = std::max<std::int64_t>(0, begin - 1);
      if (here.weight >= 1 - here.error) end = std::min(end + 1, plan.in[axis] - 1);
      double steepest = 0;
      for (std::int64_t low = begin; low < end; ++low) {
        Place step = at;
        double error = 0;
        step[axis] = {low, low + 1, 1, 0};
        const double above = combine(plan, step, x, first, error);
        step[axis].weight = 0;
        steepest = std::max(steepest, std::fabs(above - combine(plan, step, x, first, error)) + error);
      }
      total += here.error * steepest;
    }
    return total;
  }

  std::size_t axes_;
};

}  // namespace

void add_upsample(OpList& list) {
  list.push_back(std::make_unique<Nearest>("upsample_nearest1d", 1));
  list.push_back(std::make_unique<Nearest>("upsample_nearest2d", 2));
  list.push_back(std::make_unique<Nearest>("upsample_nearest3d", 3));
  list.push_back(std::make_unique<Linear>("upsample_linear1d", 1));
  list.push_back(std::make_unique<Linear>("upsample_bilinear2d", 2));
  list.push_back(std::make_unique<Linear>("upsample_trilinear3d", 3));
}

}  // namespace lathe::ops
