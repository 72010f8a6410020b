#include "task/ops/support/move.h"
#include "task/ops/support/needs.h"

namespace lathe::ops {
namespace {

std::size_t repeated_axis(const OpSite& site) {
  return wrap_axis(site.attrs.integer("axis", -1), site.out.size());
}

/// The elements along `axis` (default: the last) moved on by `shift` places; what leaves at the end
/// comes in at the beginning.
class Roll final : public MoveOp {
 public:
  Roll()
      : MoveOp({"roll",
                OpClass::kMove,
                1,
                1,
                {{"axis", AttrKind::kInteger}, {"shift", AttrKind::kInteger, true}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_TRY([[maybe_unused]] const auto axis, axis_attr(context.attrs, -1, context.in[0].shape.size()));
    LATHE_TRY([[maybe_unused]] const auto shift, context.attrs.expression("shift", Expr::constant(0)));
    return context.in[0];
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    roll(site, in, site.attrs.integer("shift", 0), out);
  }

  std::vector<OpMutant> mutants() const override {
    return {{"other_way", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const std::int64_t shift = site.attrs.integer("shift", 0),
                                  extent = site.out[repeated_axis(site)];
               if (shift % extent * 2 % extent != 0) roll(site, in, -shift, out);
             }}};
  }

 private:
  static void roll(const OpSite& site, std::span<const Value* const> in, std::int64_t shift, Value& out) {
    const std::int64_t extent = site.out[repeated_axis(site)],
                       back = extent - (shift % extent + extent) % extent;
    copy_lines(
        site, repeated_axis(site), in,
        [&](std::size_t i) {
          return (i + static_cast<std::size_t>(back)) % static_cast<std::size_t>(extent);
        },
        out);
  }
};

/// The elements along `axis` (default: the last) `times` times, all of them one time after the
/// other, or each one as often in a row.
class Repeat final : public MoveOp {
 public:
  Repeat(std::string_view name, bool each)
      : MoveOp({name,
                OpClass::kMove,
                1,
                1,
                {{"axis", AttrKind::kInteger}, {"times", AttrKind::kInteger, true}}}),
        each_(each) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    SymbolicType result = context.in[0];
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, result.shape.size()));
    LATHE_TRY(const Expr times, context.attrs.expression("times", Expr::constant(1)));
    if (!context.same(Expr::apply(">=", times, Expr::constant(1)), Expr::constant(1)))
      return invalid("attribute 'times' must be 1 or more, got " + times.to_string());
    result.shape[axis] = times * result.shape[axis];
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    repeat(site, in, each_, out);
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    return spread_over(demand.wanted, element_count(site.out), element_count(site.in[0]));
  }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    return in[0] * (element_count(site.out) / element_count(site.in[0]));
  }

  std::vector<OpMutant> mutants() const override {
    return {{each_ ? "tiled" : "interleaved",
             [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const std::int64_t extent = site.in[0][repeated_axis(site)];
               if (extent > 1 && site.out[repeated_axis(site)] > extent) repeat(site, in, !each_, out);
             }}};
  }

 private:
  static void repeat(const OpSite& site, std::span<const Value* const> in, bool each, Value& out) {
    const auto extent = static_cast<std::size_t>(site.in[0][repeated_axis(site)]);
    const std::size_t times = static_cast<std::size_t>(site.out[repeated_axis(site)]) / extent;
    copy_lines(
        site, repeated_axis(site), in, [&](std::size_t i) { return each ? i / times : i % extent; }, out);
  }

  bool each_;
};

}  // namespace

void add_repeats(OpList& list) {
  list.push_back(std::make_unique<Roll>());
  list.push_back(std::make_unique<Repeat>("tile", false));
  list.push_back(std::make_unique<Repeat>("repeat_interleave", true));
}

}  // namespace lathe::ops
