#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <type_traits>

#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {

/// A float literal that C reads back as the fp32 nearest to `value`, and without its suffix as
/// `value`.
inline std::string float_literal(double value) {
  const auto narrow = static_cast<float>(value);
  if (std::isnan(narrow)) return "__builtin_nanf(\"\")";
  if (std::isinf(narrow)) return narrow > 0 ? "__builtin_inff()" : "(-__builtin_inff())";
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  text += "f";
  return narrow < 0 ? "(" + text + ")" : text;
}

/// Defaults for the optional members of an elementwise formula.
struct UnaryDefaults {
  static std::vector<AttrRule> rules() { return {}; }
  static constexpr double kFlops = 1;
  static constexpr double kFloor = 0;    ///< absolute error beside underflow
  static constexpr bool kFolds = false;  ///< a kernel may start the sum that produces x from `start`
  static constexpr double start = 0;
};

/// An elementwise op from its formula F, made anew for a node from its attributes:
///   F(const Attrs&)                static kName, kFlops, kFloor, rules()
///   double f(double x) const
///   double slope(double x, double y) const           df/dx, which carries the input's error
///   double own(double x, double y) const             the error of an honest fp32 formula in units of u
///   std::string c(const std::string& x) const        the C expression
/// A function that is steep or bounded where its argument ends (sqrt at 0) defines `spread` instead
/// of `slope`:
///   double spread(double x, double e, double y)      max |f(x') - y| over |x' - x| <= e
/// One that falls and rises adds
///   double turn() const                              where its slope is 0
/// One whose textbook form overflows adds
///   double textbook(double x) const                  f as Numerics::textbook gives it
/// One that random inputs do not tell from its mistakes adds
///   std::vector<double> telling(DType dtype)         see telling_inputs(); static or const
template <class F>
class UnaryOp final : public NamedOp {
 public:
  UnaryOp() : NamedOp({F::kName, OpClass::kElementwise, 1, 1, F::rules()}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    return context.in[0];
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    const F formula(site.attrs);
    const Value& x = *in[0];
    prepare(site.out, needs_error(in, numerics), out);
    for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] = formula.f(x.data[i]);
    if constexpr (requires { formula.textbook(0.0); })
      if (numerics.textbook)
        for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] = formula.textbook(x.data[i]);
    if (F::kFolds) out.terms = x.terms;
    if (out.err.empty()) return;
    const double u = numerics.unit_roundoff;
    const double floor = u > 0 ? std::max(F::kFloor, numerics.underflow) : 0;
    const double shift = start_error(numerics, out.terms, formula.start);
    for (std::size_t i = 0; i < out.err.size(); ++i) {
      out.err[i] = std::max(u * formula.own(x.data[i], out.data[i]), floor) + shift;
    }
    if (!x.err.empty()) propagate(formula, x, u, out);
    bound_infinite(x, u, floor, out);
  }

  double flops(const OpSite& site) const override {
    return F::kFlops * static_cast<double>(element_count(site.out));
  }

  std::string c_expression(const Attrs& attrs, std::span<const std::string> operands) const override {
    return F(attrs).c(operands[0]);
  }

  std::vector<OpMutant> mutants() const override {
    if constexpr (requires { F::mutants(); }) return F::mutants();
    return {};
  }

  std::vector<double> telling(const Attrs& attrs, std::size_t, DType dtype) const override {
    if constexpr (requires(const F& formula) { formula.telling(dtype); }) return F(attrs).telling(dtype);
    return {};
  }

 private:
  /// What is made of an infinity that is exact, such as a mask's: another, which is not rounded, or
  /// a limit.
  static void bound_infinite(const Value& x, double u, double floor, Value& out) {
    for (std::size_t i = 0; i < out.err.size(); ++i) {
      if (!std::isinf(x.data[i]) || x.error_at(i) != 0 || std::isnan(out.data[i])) continue;
      out.err[i] =
          std::isinf(out.data[i]) ? 0 : std::max(kTranscendental * u * std::fabs(out.data[i]), floor);
    }
  }
  /// What an error of `e` in x makes of y: the slope's share, or, of an error so large that the
  /// slope changes on the way, what the formula gives at its ends, with the rounding there.
  static double carried(const F& formula, double x, double e, double y, double u) {
    const double linear = std::fabs(formula.slope(x, y)) * e;
    if (e <= 0x1p-14 * std::min(1.0, std::fabs(x))) return linear;
    double most = linear, own = formula.own(x, y);
    const double here = own;
    for (const double end : {x - e, x + e}) {
      const double there = formula.f(end);
      most = std::max(most, std::fabs(there - y));
      own = std::max(own, formula.own(end, there));
    }
    if constexpr (requires { formula.turn(); })
      if (std::fabs(formula.turn() - x) < e) most = std::max(most, std::fabs(formula.f(formula.turn()) - y));
    return most + u * (own - here);
  }
  static void propagate(const F& formula, const Value& x, double u, Value& out) {
    for (std::size_t i = 0; i < out.err.size(); ++i) {
      if constexpr (requires { formula.spread(0.0, 0.0, 0.0); }) {
        out.err[i] += formula.spread(x.data[i], x.err[i], out.data[i]);
      } else if (x.err[i] > 0) {
        out.err[i] += carried(formula, x.data[i], x.err[i], out.data[i], u);
      }
    }
  }
};

template <class... Formulas>
void add_unary(OpList& list) {
  (list.push_back(std::make_unique<UnaryOp<Formulas>>()), ...);
}

}  // namespace lathe::ops
