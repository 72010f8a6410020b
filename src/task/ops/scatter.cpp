#include <algorithm>
#include <limits>
#include <vector>

#include "task/ops/support/move.h"
#include "task/ops/support/needs.h"

namespace lathe::ops {
namespace {

/// Whether the numbers are places of an axis, and none occurs twice.
bool are_distinct_places(const Value& index, std::size_t extent) {
  std::vector<bool> taken(extent, false);
  return std::ranges::all_of(index.data, [&](double wanted) {
    if (!is_place(wanted, extent) || taken[static_cast<std::size_t>(wanted)]) return false;
    taken[static_cast<std::size_t>(wanted)] = true;
    return true;
  });
}

/// base with slices of x along axis 0 in the places that an integer tensor names: out[index[i],
/// ...] = x[i, ...]. No place may be named twice, as nobody could say who comes last: all of the
/// result is NaN then, or where a place lies outside.
class Scatter final : public MoveOp {
 public:
  Scatter() : MoveOp({"scatter", OpClass::kMove, 3, 3}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType& base = context.in[0];
    const SymbolicType& x = context.in[2];
    if (base.dtype != x.dtype)
      return invalid("inputs 1 and 3 have different dtypes: " + describe(base) + " and " + describe(x));
    LATHE_CHECK_OK(check_index(context, 1));
    if (base.shape.empty()) return invalid("input 1 must have an axis, got " + describe(base));
    LATHE_CHECK_OK(check_rank(context, 1, 1));
    std::vector<Expr> shape = base.shape;
    shape[0] = context.in[1].shape[0];
    LATHE_CHECK_OK(check_shape(context, 2, shape, "a slice of input 1 for each element of input 2"));
    return base;
  }

  Order order_of(std::size_t input) const override { return input == 1 ? Order::kDistinct : Order::kAny; }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    assign(site, in, {}, out);
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const std::int64_t items = site.in[1][0], missing = element_count(site.out) - demand.wanted;
    if (demand.wanted <= 0) return 0;
    if (demand.input == 1) return any_constant(demand) || site.out[0] < 2 ? 0 : items;
    const std::int64_t moved = element_count(site.in[2]);
    return without(demand.input == 2 ? moved : element_count(site.out) - moved, missing, 1);
  }
  std::int64_t kept(const OpSite& site) const override {
    return element_count(site.out) - element_count(site.in[2]);
  }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    return std::min(in[0], kept(site)) + in[2];
  }

  std::vector<OpMutant> mutants() const override {
    const auto with = [](const Mistake& mistake) {
      return [mistake](const OpSite& site, std::span<const Value* const> in, Value& out) {
        if (mistake.next_place && site.out[0] < 2) return;
        assign(site, in, mistake, out);
      };
    };
    return {{"skipped_tail", with({.no_tail = true})}, {"next_place", with({.next_place = true})}};
  }

 private:
  struct Mistake {
    bool no_tail = false;  ///< the last eighth of the items
    bool next_place = false;
  };

  static void assign(const OpSite& site, std::span<const Value* const> in, const Mistake& mistake,
                     Value& out) {
    const Value* const values[] = {in[0], in[2]};
    prepare_move(site, values, out);
    const auto rows = static_cast<std::size_t>(site.out[0]), width = out.data.size() / rows;
    if (!are_distinct_places(*in[1], rows))
      return out.data.assign(out.data.size(), std::numeric_limits<double>::quiet_NaN());
    const auto copy = [&](const Value& from, std::size_t first, std::size_t to, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        out.data[to + i] = from.data[first + i];
        if (!out.err.empty()) out.err[to + i] = from.error_at(first + i);
      }
    };
    copy(*in[0], 0, 0, out.data.size());
    std::size_t items = in[1]->data.size();
    if (mistake.no_tail) items -= std::max<std::size_t>(1, items / 8);
    for (std::size_t i = 0; i < items; ++i) {
      const auto place = static_cast<std::size_t>(in[1]->data[i]) + (mistake.next_place ? 1 : 0);
      copy(*in[2], i * width, place % rows * width, width);
    }
  }
};

}  // namespace

void add_scatter(OpList& list) { list.push_back(std::make_unique<Scatter>()); }

}  // namespace lathe::ops
