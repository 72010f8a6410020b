#include <cstdlib>

#include "task/ops/support/elementwise.h"

namespace lathe::ops {
namespace {

// The constant itself may be rounded to fp32 in a kernel.

/// By a power of two it is exact, as long as nothing underflows: a jump behind it has its ties.
struct Scale : UnaryDefaults {
  static constexpr std::string_view kName = "scale";
  static constexpr bool kFolds = true;
  static std::vector<AttrRule> rules() { return {{"by", AttrKind::kReal, true}}; }
  explicit Scale(const Attrs& attrs) : by(attrs.real("by", 1)) {}
  double f(double x) const { return x * by; }
  double slope(double, double) const { return by; }
  double own(double, double y) const { return exact ? 0 : 2 * std::fabs(y); }
  std::string c(const std::string& x) const { return x + " * " + float_literal(by); }
  double by;
  int exponent = 0;
  bool exact = std::fabs(std::frexp(by, &exponent)) == 0.5 && std::abs(exponent) <= 100;
};

struct AddScalar : UnaryDefaults {
  static constexpr std::string_view kName = "add_scalar";
  static constexpr bool kFolds = true;
  static std::vector<AttrRule> rules() { return {{"by", AttrKind::kReal, true}}; }
  explicit AddScalar(const Attrs& attrs) : start(attrs.real("by", 0)) {}
  double f(double x) const { return x + start; }
  double slope(double, double) const { return 1; }
  double own(double, double y) const { return std::fabs(y) + std::fabs(start); }
  std::string c(const std::string& x) const { return x + " + " + float_literal(start); }
  double start;
};

/// Computed as exp(b log x), so the error grows with the exponent.
struct PowScalar : UnaryDefaults {
  static constexpr std::string_view kName = "pow_scalar";
  static constexpr double kFloor = kFlush;
  static std::vector<AttrRule> rules() { return {{"exponent", AttrKind::kReal, true}}; }
  explicit PowScalar(const Attrs& attrs) : exponent(attrs.real("exponent", 1)) {}
  double f(double x) const { return std::pow(x, exponent); }
  double slope(double x, double) const { return exponent * std::pow(x, exponent - 1); }
  double own(double x, double y) const {
    if (y == 0) return 0;
    const double steepness = std::fabs(exponent * std::log(std::fabs(x)));
    return (kTranscendental * (1 + 2 * steepness) + std::fabs(exponent)) * std::fabs(y);
  }
  std::string c(const std::string& x) const {
    return "lathe::pow(" + x + ", " + float_literal(exponent) + ")";
  }
  double exponent;
};

}  // namespace

void add_scalar_math(OpList& list) { add_unary<Scale, AddScalar, PowScalar>(list); }

}  // namespace lathe::ops
