#include <cmath>
#include <limits>

#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/resample.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

struct Span {
  std::int64_t begin;
  std::int64_t end;
};

/// PyTorch's windows: from floor(i in / out) to ceil((i + 1) in / out), so that neighbours may
/// overlap. `cut`: the end rounded down, which is a mistake.
Span window_at(std::int64_t position, std::int64_t in, std::int64_t out, bool cut) {
  const std::int64_t begin = position * in / out, end = ((position + 1) * in + (cut ? 0 : out - 1)) / out;
  return {begin, std::max(begin + 1, end)};
}

/// The mean or the maximum of windows that divide x [N, C, ...] among `size` positions.
class AdaptivePool final : public NamedOp {
 public:
  AdaptivePool(std::string_view name, std::size_t axes, bool largest)
      : NamedOp({name, OpClass::kStencil, 1, 1, {size_rule()}}), axes_(axes), largest_(largest) {}

  Result<SymbolicType> infer(const InferContext& context) const override { return resized(context, axes_); }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    pool(site, *in[0], numerics, false, out);
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const Resampling plan = make_resampling(site, axes_);
    std::int64_t most = 1;
    for (std::size_t axis = 0; axis < plan.in.size(); ++axis)
      most *= std::min(plan.in[axis], (plan.in[axis] + plan.out[axis] - 1) / plan.out[axis] + 1);
    return without(element_count(site.in[0]), element_count(site.out) - demand.wanted, most);
  }

  double flops(const OpSite& site) const override {
    const Resampling plan = make_resampling(site, axes_);
    auto taps = static_cast<double>(plan.planes);
    for (std::size_t axis = 0; axis < plan.in.size(); ++axis)
      taps *= static_cast<double>(std::max(plan.in[axis], plan.out[axis]));
    return taps;
  }

  std::vector<OpMutant> mutants() const override {
    return {{"cut_windows", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const Resampling plan = make_resampling(site, axes_);
               bool differs = false;
               for (std::size_t axis = 0; axis < plan.in.size(); ++axis)
                 differs |= plan.in[axis] % plan.out[axis] != 0 && plan.out[axis] % plan.in[axis] != 0;
               if (differs) pool(site, *in[0], Numerics{.unit_roundoff = 0}, true, out);
             }}};
  }

 private:
  void pool(const OpSite& site, const Value& x, const Numerics& numerics, bool cut, Value& out) const {
    const Value* inputs[] = {&x};
    prepare(site.out, needs_error(inputs, numerics), out);
    const Resampling plan = make_resampling(site, axes_);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(out.data.size()); ++i) {
      const std::int64_t position = i % plan.out_plane();
      const Axes place{position / (plan.out[1] * plan.out[2]), position / plan.out[2] % plan.out[1],
                       position % plan.out[2]};
      std::array<Span, 3> window{};
      for (std::size_t axis = 0; axis < place.size(); ++axis)
        window[axis] = window_at(place[axis], plan.in[axis], plan.out[axis], cut);
      const auto plane = static_cast<std::size_t>(i / plan.out_plane() * plan.in_plane());
      double error = 0;
      const auto to = static_cast<std::size_t>(i);
      out.data[to] = largest_ ? maximum(plan, window, x, plane, error)
                              : average(plan, window, x, plane, numerics, error);
      if (!out.err.empty()) out.err[to] = error;
    }
  }

  template <class Visit>
  static void visit(const Resampling& plan, const std::array<Span, 3>& window, Visit visit_element) {
    for (std::int64_t a = window[0].begin; a < window[0].end; ++a)
      for (std::int64_t b = window[1].begin; b < window[1].end; ++b)
        for (std::int64_t c = window[2].begin; c < window[2].end; ++c) visit_element(plan.offset(a, b, c));
  }

  static double maximum(const Resampling& plan, const std::array<Span, 3>& window, const Value& x,
                        std::size_t plane, double& error) {
    double result = -std::numeric_limits<double>::infinity();
    visit(plan, window, [&](std::size_t at) {
      const double value = x.data[plane + at];
      if (value > result || std::isnan(value)) result = value;
      error = std::max(error, x.error_at(plane + at));
    });
    return result;
  }

  static double average(const Resampling& plan, const std::array<Span, 3>& window, const Value& x,
                        std::size_t plane, const Numerics& numerics, double& error) {
    double sum = 0;
    SumBound bound;
    visit(plan, window, [&](std::size_t at) {
      sum += x.data[plane + at];
      bound.add(x.data[plane + at], x.error_at(plane + at));
    });
    error = bound.total(numerics) / bound.count + 2 * rounding(numerics, sum / bound.count);
    return sum / bound.count;
  }

  std::size_t axes_;
  bool largest_;
};

}  // namespace

void add_adaptive_pool(OpList& list) {
  list.push_back(std::make_unique<AdaptivePool>("adaptive_avg_pool1d", 1, false));
  list.push_back(std::make_unique<AdaptivePool>("adaptive_avg_pool2d", 2, false));
  list.push_back(std::make_unique<AdaptivePool>("adaptive_avg_pool3d", 3, false));
  list.push_back(std::make_unique<AdaptivePool>("adaptive_max_pool1d", 1, true));
  list.push_back(std::make_unique<AdaptivePool>("adaptive_max_pool2d", 2, true));
  list.push_back(std::make_unique<AdaptivePool>("adaptive_max_pool3d", 3, true));
}

}  // namespace lathe::ops
