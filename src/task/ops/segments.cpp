#include <algorithm>
#include <cmath>
#include <limits>

#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// What is made of segments of x along axis 0, which an integer tensor [segments + 1] bounds:
/// out[s, ...] of x[i, ...] over offsets[s] <= i < offsets[s + 1]. Offsets rise from 0 to the
/// extent of x; others make all of the result NaN.
class SegmentOp : public NamedOp {
 public:
  explicit SegmentOp(std::string_view name) : NamedOp({name, OpClass::kOther, 2, 2}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    SymbolicType result = context.in[0];
    LATHE_CHECK_OK(check_numeric({context.attrs, {result}, context.same}));
    LATHE_CHECK_OK(check_index(context, 1));
    if (result.shape.empty()) return invalid("input 1 must have an axis, got " + describe(result));
    LATHE_CHECK_OK(check_rank(context, 1, 1));
    result.shape[0] = context.in[1].shape[0] - Expr::constant(1);
    return result;
  }

  Order order_of(std::size_t input) const override { return input == 1 ? Order::kOffsets : Order::kAny; }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.in[0])); }

  /// The first and the last offset are known; all of x may be one segment.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const std::int64_t missing = element_count(site.out) - demand.wanted;
    if (any_constant(demand) || demand.wanted <= 0) return 0;
    if (demand.input == 1) return missing > 0 ? 0 : site.out[0] - 1;
    return without(element_count(site.in[0]), missing, site.in[0][0]);
  }

 protected:
  static bool are_offsets(const Value& offsets, const OpSite& site) {
    return offsets.data.front() == 0 && offsets.data.back() == static_cast<double>(site.in[0][0]) &&
           std::ranges::is_sorted(offsets.data);
  }
  static void make_nan(Value& out) {
    out.data.assign(out.data.size(), std::numeric_limits<double>::quiet_NaN());
  }
};

class SegmentSum final : public SegmentOp {
 public:
  SegmentSum() : SegmentOp("segment_sum") {}

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    add(site, in, numerics, 0, out);
  }

  std::vector<OpMutant> mutants() const override {
    return {{"last_left_out", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               add(site, in, Numerics{.unit_roundoff = 0}, 1, out);
             }}};
  }

 private:
  /// `left_out`: items at the end of each segment, which is a mistake.
  static void add(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                  std::size_t left_out, Value& out) {
    const Value& x = *in[0];
    prepare(site.out, needs_error(in.first(1), numerics), out);
    if (!are_offsets(*in[1], site)) return make_nan(out);
    const auto segments = static_cast<std::size_t>(site.out[0]), width = out.data.size() / segments;
    std::vector<SumBound> bounds(width);
    std::vector<WideSum> totals(width);
    for (std::size_t segment = 0; segment < segments; ++segment) {
      const auto begin = static_cast<std::size_t>(in[1]->data[segment]);
      const auto end = static_cast<std::size_t>(in[1]->data[segment + 1]);
      std::ranges::fill(bounds, SumBound{});
      std::ranges::fill(totals, WideSum{});
      for (std::size_t row = begin; row + left_out < end; ++row)
        for (std::size_t i = 0; i < width; ++i) {
          totals[i].add(x.data[row * width + i]);
          bounds[i].add(x.data[row * width + i], x.error_at(row * width + i));
        }
      for (std::size_t i = 0; i < width; ++i) out.data[segment * width + i] = totals[i].value();
      for (std::size_t i = 0; i < width && !out.err.empty(); ++i)
        out.err[segment * width + i] = bounds[i].total(numerics);
      out.terms = std::max(out.terms, static_cast<double>(end - begin));
    }
  }
};

/// Whether `x` replaces the best so far. NaN is above all and below all.
bool beats(bool largest, double x, double best) {
  return std::isnan(x) || (!std::isnan(best) && (largest ? x > best : x < best));
}

/// The largest or smallest of a segment, element by element; 0 where there is nothing in it. An
/// extremum of perturbed values moves at most by the largest perturbation.
class SegmentExtremum final : public SegmentOp {
 public:
  SegmentExtremum(std::string_view name, bool largest) : SegmentOp(name), largest_(largest) {}

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    choose(site, in, largest_, 0, out);
  }

  std::vector<OpMutant> mutants() const override {
    return {{"last_left_out", [this](const OpSite& site, std::span<const Value* const> in,
                                     Value& out) { choose(site, in, largest_, 1, out); }},
            {"other_end", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               choose(site, in, !largest_, 0, out);
             }}};
  }

 private:
  /// `left_out`: items at the end of each segment, which is a mistake.
  static void choose(const OpSite& site, std::span<const Value* const> in, bool largest, std::size_t left_out,
                     Value& out) {
    const Value& x = *in[0];
    const std::vector<double>& offsets = in[1]->data;
    prepare(site.out, !x.err.empty(), out);
    if (!are_offsets(*in[1], site)) return make_nan(out);
    const auto segments = static_cast<std::size_t>(site.out[0]), width = out.data.size() / segments;
    for (std::size_t segment = 0; segment < segments; ++segment) {
      const auto begin = static_cast<std::size_t>(offsets[segment]);
      const auto end = static_cast<std::size_t>(offsets[segment + 1]);
      for (std::size_t row = begin; row + left_out < end; ++row)
        for (std::size_t i = 0; i < width; ++i) {
          const std::size_t from = row * width + i, to = segment * width + i;
          if (row == begin || beats(largest, x.data[from], out.data[to])) out.data[to] = x.data[from];
          if (!out.err.empty()) out.err[to] = std::max(out.err[to], x.err[from]);
        }
    }
  }

  bool largest_;
};

/// base, or the largest or smallest of it and of the slices of x that go there: out[index[i], ...]
/// = max(out[index[i], ...], x[i, ...]). An index outside the axis makes all of the result NaN.
class ScatterExtremum final : public NamedOp {
 public:
  ScatterExtremum(std::string_view name, bool largest)
      : NamedOp({name, OpClass::kOther, 3, 3}), largest_(largest) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    return find_op("scatter_add")->infer(context);
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    choose(site, in, largest_, {}, out);
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.in[2])); }

  /// As for scatter_add, but where something small would go is of no interest.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    return demand.input == 1 ? 0 : find_op("scatter_add")->needs(site, demand);
  }
  /// None of x may be larger.
  std::int64_t kept(const OpSite& site) const override { return element_count(site.out); }

  std::vector<OpMutant> mutants() const override {
    const auto with = [this](const Mistake& mistake) {
      return [this, mistake](const OpSite& site, std::span<const Value* const> in, Value& out) {
        choose(site, in, largest_ != mistake.other_end, mistake, out);
      };
    };
    return {{"last_of_each", with({.last_only = true})},
            {"dropped_base", with({.no_base = true})},
            {"other_end", with({.other_end = true})}};
  }

 private:
  struct Mistake {
    bool last_only = false;  ///< of those that go to one place
    bool no_base = false;
    bool other_end = false;
  };

  static void choose(const OpSite& site, std::span<const Value* const> in, bool largest,
                     const Mistake& mistake, Value& out) {
    const Value &base = *in[0], &x = *in[2];
    const std::vector<double>& index = in[1]->data;
    const Value* const values[] = {&base, &x};
    prepare(site.out, needs_error(values, Numerics{.unit_roundoff = 0}), out);
    const auto rows = static_cast<std::size_t>(site.out[0]), width = out.data.size() / rows;
    if (!std::ranges::all_of(index, [&](double place) { return is_place(place, rows); }))
      return out.data.assign(out.data.size(), std::numeric_limits<double>::quiet_NaN());
    out.data = base.data;
    for (std::size_t i = 0; i < out.err.size(); ++i) out.err[i] = base.error_at(i);
    std::vector<bool> reached(rows, false);
    for (std::size_t item = 0; item < index.size(); ++item) {
      const auto row = static_cast<std::size_t>(index[item]);
      const bool replaces = mistake.last_only || (mistake.no_base && !reached[row]);
      reached[row] = true;
      for (std::size_t i = 0; i < width; ++i) {
        const std::size_t from = item * width + i, to = row * width + i;
        if (replaces || beats(largest, x.data[from], out.data[to])) out.data[to] = x.data[from];
        if (!out.err.empty()) out.err[to] = std::max(out.err[to], x.error_at(from));
      }
    }
  }

  bool largest_;
};

}  // namespace

void add_segments(OpList& list) {
  list.push_back(std::make_unique<SegmentSum>());
  list.push_back(std::make_unique<SegmentExtremum>("segment_max", true));
  list.push_back(std::make_unique<SegmentExtremum>("segment_min", false));
  list.push_back(std::make_unique<ScatterExtremum>("scatter_max", true));
  list.push_back(std::make_unique<ScatterExtremum>("scatter_min", false));
}

}  // namespace lathe::ops
