#include <algorithm>
#include <limits>
#include <numeric>

#include "task/ops/support/indexing.h"
#include "task/ops/support/move.h"
#include "task/ops/support/needs.h"

namespace lathe::ops {
namespace {

bool are_places(const Value& index, std::size_t extent) {
  return std::ranges::all_of(index.data, [&](double wanted) { return is_place(wanted, extent); });
}

/// What is known of sums that went to places outside the result: nothing.
void fill_unknown(Value& out) { std::ranges::fill(out.data, std::numeric_limits<double>::quiet_NaN()); }

/// The first `count` items by their places, in order: those of place p are at [first[p], first[p +
/// 1]).
struct Hits {
  std::vector<std::size_t> first, items;

  Hits(const std::vector<double>& index, std::size_t count, std::size_t places)
      : first(places + 1), items(count) {
    for (std::size_t i = 0; i < count; ++i) ++first[static_cast<std::size_t>(index[i]) + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<std::size_t> next(first.begin(), first.end() - 1);
    for (std::size_t i = 0; i < count; ++i) items[next[static_cast<std::size_t>(index[i])]++] = i;
  }
  std::span<const std::size_t> of(std::size_t place) const {
    return std::span(items).subspan(first[place], first[place + 1] - first[place]);
  }
};

/// base with slices of x added along axis 0, to those that an integer tensor selects: out[index[i],
/// ...] += x[i, ...]. Several may go to one place, and are added in any order. An index outside the
/// axis makes all of the result NaN.
class ScatterAdd final : public NamedOp {
 public:
  ScatterAdd() : NamedOp({"scatter_add", OpClass::kOther, 3, 3}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType& base = context.in[0];
    const SymbolicType& x = context.in[2];
    LATHE_CHECK_OK(check_numeric({context.attrs, {base, x}, context.same}));
    LATHE_CHECK_OK(check_index(context, 1));
    if (base.shape.empty()) return invalid("input 1 must have an axis, got " + describe(base));
    std::vector<Expr> shape = context.in[1].shape;
    if (shape.empty()) return invalid("input 2 must have an axis, got " + describe(context.in[1]));
    shape.insert(shape.end(), base.shape.begin() + 1, base.shape.end());
    LATHE_CHECK_OK(check_shape(context, 2, shape, "a slice of input 1 for each element of input 2"));
    return base;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    add(site, in, numerics, {}, out);
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.in[2])); }

  /// Who needs one element must know of every item whether it goes there. All items may go to one
  /// place.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    if (demand.wanted <= 0) return 0;
    if (demand.input == 0) return demand.wanted;
    if (any_constant(demand)) return 0;
    const std::int64_t items = element_count(site.in[1]);
    if (demand.input == 1) return site.out[0] < 2 ? 0 : items;
    return without(element_count(site.in[2]), element_count(site.out) - demand.wanted, items);
  }
  std::int64_t kept(const OpSite& site) const override {
    return element_count(site.out) - element_count(site.out) / site.out[0];
  }

  std::vector<OpMutant> mutants() const override {
    const auto with = [](const Mistake& mistake) {
      return [mistake](const OpSite& site, std::span<const Value* const> in, Value& out) {
        add(site, in, Numerics{.unit_roundoff = 0}, mistake, out);
      };
    };
    return {{"lost_duplicates", with({.last_only = true})},
            {"dropped_base", with({.no_base = true})},
            {"skipped_tail", with({.no_tail = true})}};
  }

 private:
  struct Mistake {
    bool last_only = false;  ///< of those that go to one place
    bool no_base = false;
    bool no_tail = false;  ///< the last eighth of the items
  };

  static void add(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                  const Mistake& mistake, Value& out) {
    const Value& base = *in[0];
    const Value& index = *in[1];
    const Value& x = *in[2];
    prepare(site.out, needs_error(in, numerics), out);
    const auto rows = static_cast<std::size_t>(site.out[0]);
    if (!are_places(index, rows)) return fill_unknown(out);
    std::size_t count = index.data.size();
    if (mistake.no_tail) count -= std::max<std::size_t>(1, count / 8);
    const Hits hits(index.data, count, rows);
    const std::size_t width = out.data.size() / rows;
    std::size_t most = 0;
    std::vector<WideSum> totals(width);
    std::vector<SumBound> bounds(width);
    for (std::size_t row = 0; row < rows; ++row) {
      std::span<const std::size_t> items = hits.of(row);
      if (mistake.last_only && items.size() > 1) items = items.last(1);
      most = std::max(most, items.size());
      for (std::size_t i = 0; i < width; ++i) {
        const std::size_t at = row * width + i;
        totals[i] = WideSum(mistake.no_base ? 0 : base.data[at]);
        bounds[i] = {};
        bounds[i].add(base.data[at], base.error_at(at));
      }
      for (const std::size_t item : items)
        for (std::size_t i = 0; i < width; ++i) {
          totals[i].add(x.data[item * width + i]);
          bounds[i].add(x.data[item * width + i], x.error_at(item * width + i));
        }
      std::ranges::transform(totals, out.data.begin() + static_cast<std::ptrdiff_t>(row * width),
                             &WideSum::value);
      for (std::size_t i = 0; i < width && !out.err.empty(); ++i)
        out.err[row * width + i] = items.empty() ? bounds[i].propagated : total(bounds[i], base, x, numerics);
    }
    out.terms = base.terms + std::max(1.0, x.terms) * static_cast<double>(most);
  }

  /// A kernel may start base's or x's own sums from what else is added.
  static double total(const SumBound& bound, const Value& base, const Value& x, const Numerics& numerics) {
    double error = bound.total(numerics);
    for (const double terms : {base.terms, x.terms})
      if (terms > 0) error += start_error(numerics, terms, bound.magnitude);
    return error;
  }
};

/// How often an integer tensor has each value of [0, bins), as int32. A value outside makes all of
/// the result NaN.
class Bincount final : public NamedOp {
 public:
  Bincount() : NamedOp({"bincount", OpClass::kOther, 1, 1, {{"bins", AttrKind::kInteger, true}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_index(context, 0));
    LATHE_TRY(const Expr bins, context.attrs.expression("bins", Expr::constant(1)));
    if (!context.same(Expr::apply(">=", bins, Expr::constant(1)), Expr::constant(1)))
      return invalid("attribute 'bins' must be 1 or more, got " + bins.to_string());
    return SymbolicType{DType::kI32, {bins}};
  }

  /// Where the argument of a jump is so near that both sides are right, either place may count.
  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    const Value& index = *in[0];
    count(site, index, index.data.size(), out);
    if (out.err.empty() || !are_places(index, out.data.size())) return;
    for (std::size_t i = 0; i < index.data.size(); ++i) {
      if (index.err[i] == 0) continue;
      const double last = static_cast<double>(out.data.size() - 1);
      const auto low =
          static_cast<std::size_t>(std::clamp(std::ceil(index.data[i] - index.err[i]), 0.0, last));
      const auto high =
          static_cast<std::size_t>(std::clamp(std::floor(index.data[i] + index.err[i]), 0.0, last));
      for (std::size_t bin = low; bin <= high; ++bin) out.err[bin] += low < high ? 1 : 0;
    }
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.in[0])); }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    if (any_constant(demand) || demand.wanted <= 0 || site.out[0] < 2) return 0;
    return element_count(site.in[0]);
  }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    return in[0] > 0 || site.out[0] < 2 ? element_count(site.out) : 0;
  }

  std::vector<OpMutant> mutants() const override {
    return {{"lost_duplicates",
             [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               count(site, *in[0], in[0]->data.size(), out);
               for (double& number : out.data) number = std::min(number, 1.0);
             }},
            {"lost_last_bin",
             [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               count(site, *in[0], in[0]->data.size(), out);
               out.data.back() = 0;
             }},
            {"skipped_tail", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const std::size_t all = in[0]->data.size();
               count(site, *in[0], all - std::max<std::size_t>(1, all / 8), out);
             }}};
  }

 private:
  static void count(const OpSite& site, const Value& index, std::size_t items, Value& out) {
    prepare(site.out, !index.err.empty(), out);
    if (!are_places(index, out.data.size())) return fill_unknown(out);
    for (std::size_t i = 0; i < items; ++i) out.data[static_cast<std::size_t>(index.data[i])] += 1;
  }
};

}  // namespace

void add_scatter_add(OpList& list) {
  list.push_back(std::make_unique<ScatterAdd>());
  list.push_back(std::make_unique<Bincount>());
}

}  // namespace lathe::ops
