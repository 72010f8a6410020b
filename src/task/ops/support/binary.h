#pragma once

#include "task/ops/support/elementwise.h"
#include "task/ops/support/indexing.h"

namespace lathe::ops {

/// A broadcasting op from its formula F, without attributes:
///   static kName, kFlops, kFloatOnly, f(a, b), c(a, b)
///   static double propagated(a, b, ea, eb, y)    what the inputs' errors grow to
///   static double own(a, b, y)                   in units of u
///   static kAdds     whether a kernel may start one operand's sum from the other
///   static kKeepsWhole        of whole numbers it makes a whole one
///   static kMayIgnoreSecond   where only some values of the first operand need the second
///   static kWholeOnly         of an op on whole numbers: what to write for others
/// As for UnaryOp, it may add textbook(a, b) and telling(dtype), and takes(input, dtype) as Op has
/// it.
template <class F>
class BinaryOp final : public NamedOp {
 public:
  BinaryOp() : NamedOp({F::kName, OpClass::kElementwise, 2, 2}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(F::kFloatOnly ? check_float(context) : check_numeric(context));
    if constexpr (requires { F::kWholeOnly; }) LATHE_CHECK_OK(check_whole(context, F::kWholeOnly));
    LATHE_TRY(auto shape, broadcast(context, context.in[0].shape, context.in[1].shape));
    return SymbolicType{context.in[0].dtype, std::move(shape)};
  }

  std::optional<ValueRange> takes(std::size_t input, DType dtype) const override {
    if constexpr (requires { F::takes(input, dtype); }) return F::takes(input, dtype);
    return std::nullopt;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    const Value& a = *in[0];
    const Value& b = *in[1];
    if (F::kAdds) out.terms = a.terms + b.terms;
    for_each_row<2>(site.out, {site.in[0], site.in[1]}, [&](const BroadcastRow<2>& row) {
      for (std::size_t i = 0; i < row.length; ++i) {
        out.data[row.out + i] =
            value(a.data[row.in[0] + i * row.step[0]], b.data[row.in[1] + i * row.step[1]], numerics);
      }
      if (!out.err.empty()) bound_row(row, a, b, numerics, out);
    });
  }

  double flops(const OpSite& site) const override {
    return F::kFlops * static_cast<double>(element_count(site.out));
  }

  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    return F::kMayIgnoreSecond && demand.input == 1 ? 0 : NamedOp::needs(site, demand);
  }

  std::string c_expression(const Attrs&, std::span<const std::string> operands) const override {
    return F::c(operands[0], operands[1]);
  }

  std::vector<double> telling(const Attrs&, std::size_t, DType dtype) const override {
    if constexpr (requires { F::telling(dtype); }) return F::telling(dtype);
    return {};
  }

 private:
  static double value(double a, double b, const Numerics& numerics) {
    if constexpr (requires { F::textbook(a, b); })
      if (numerics.textbook) return F::textbook(a, b);
    return F::f(a, b);
  }

  /// Whether nothing is rounded: positions, above all, whose differences decide what is masked.
  static bool are_held(double a, double b, double y, const Numerics& numerics) {
    const double most = 1 / numerics.unit_roundoff;
    const auto is_held = [&](double x) {
      return std::fabs(x) <= most && x == static_cast<double>(static_cast<std::int64_t>(x));
    };
    return is_held(a) && is_held(b) && is_held(y);
  }

  /// Whether y is infinite because an operand is, such as a mask's -inf, whatever the other one's
  /// error.
  static bool stays(double a, double b, double ea, double eb, double y) {
    const auto held = [](double x, double e) { return std::isinf(x) && e == 0; };
    if (held(a, ea) && held(b, eb)) return true;
    if (held(a, ea)) return F::f(a, b - eb) == y && F::f(a, b + eb) == y;
    return held(b, eb) && F::f(a - ea, b) == y && F::f(a + ea, b) == y;
  }

  /// Rows of positions begin with whole numbers; others are not looked at one by one.
  static void bound_row(const BroadcastRow<2>& row, const Value& a, const Value& b, const Numerics& numerics,
                        Value& out) {
    const bool begins_whole =
        F::kKeepsWhole && are_held(a.data[row.in[0]], b.data[row.in[1]], out.data[row.out], numerics);
    begins_whole ? bound_each<true>(row, a, b, numerics, out) : bound_each<false>(row, a, b, numerics, out);
  }

  template <bool kMayBeHeld>
  static void bound_each(const BroadcastRow<2>& row, const Value& a, const Value& b, const Numerics& numerics,
                         Value& out) {
    const double u = numerics.unit_roundoff;
    const double floor = u > 0 ? numerics.underflow : 0;
    for (std::size_t i = 0; i < row.length; ++i) {
      const std::size_t ia = row.in[0] + i * row.step[0];
      const std::size_t ib = row.in[1] + i * row.step[1];
      const double y = out.data[row.out + i];
      const double ea = a.error_at(ia), eb = b.error_at(ib);
      const bool exact =
          F::kExact || (kMayBeHeld && ea == 0 && eb == 0 && are_held(a.data[ia], b.data[ib], y, numerics));
      if (std::isinf(y) && stays(a.data[ia], b.data[ib], ea, eb, y)) {
        out.err[row.out + i] = 0;
        continue;
      }
      const double own = exact ? 0 : std::max(u * F::own(a.data[ia], b.data[ib], y), floor);
      out.err[row.out + i] = own + F::propagated(a.data[ia], b.data[ib], ea, eb, y);
      if (out.terms == 0) continue;
      out.err[row.out + i] +=
          start_error(numerics, a.terms, b.data[ib]) + start_error(numerics, b.terms, a.data[ia]);
    }
  }
};

}  // namespace lathe::ops
