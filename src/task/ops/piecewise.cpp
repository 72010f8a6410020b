#include "task/ops/support/elementwise.h"
#include "task/ops/support/jumps.h"

namespace lathe::ops {
namespace {

struct Exact : UnaryDefaults {
  static constexpr double kFloor = 0;
  static double slope(double, double) { return 1; }
  static double own(double, double) { return 0; }
};

/// 0, and what a comparison of magnitudes with `at` may go wrong on.
std::vector<double> thresholds(double at, DType dtype) {
  std::vector<double> values = {0.0, -0.0};
  add_threshold(at, dtype, values);
  return values;
}

struct Relu : Exact {
  static constexpr std::string_view kName = "relu";
  explicit Relu(const Attrs&) {}
  double f(double x) const { return x < 0 ? 0 : x; }
  std::string c(const std::string& x) const { return "lathe::max(" + x + ", 0.0f)"; }
};

struct LeakyRelu : UnaryDefaults {
  static constexpr std::string_view kName = "leaky_relu";
  static constexpr double kFlops = 2;
  static std::vector<AttrRule> rules() { return {{"slope", AttrKind::kReal}}; }
  explicit LeakyRelu(const Attrs& attrs) : negative(attrs.real("slope", 0.01)) {}
  double f(double x) const { return x < 0 ? negative * x : x; }
  double slope(double, double) const { return std::max(1.0, std::fabs(negative)); }
  double own(double x, double y) const { return x < 0 ? 2 * std::fabs(y) : 0; }
  std::string c(const std::string& x) const {
    return "lathe::select(lathe::gt(" + x + ", 0.0f), " + x + ", " + x + " * " + float_literal(negative) +
           ")";
  }
  double negative;
};

/// Drawn to zero by lambda, and 0 where that is not reached.
struct Softshrink : UnaryDefaults {
  static constexpr std::string_view kName = "softshrink";
  static constexpr double kFlops = 3;
  static std::vector<AttrRule> rules() { return {{"lambda", AttrKind::kReal}}; }
  explicit Softshrink(const Attrs& attrs) : lambda(attrs.real("lambda", 0.5)) {}
  double f(double x) const { return x > lambda ? x - lambda : x < -lambda ? x + lambda : 0; }
  double slope(double, double) const { return 1; }
  /// lambda may be rounded to fp32, which reaches a little below it.
  double own(double x, double y) const {
    return std::fabs(x) > (1 - 0x1p-23) * lambda ? std::fabs(y) + std::fabs(lambda) : 0;
  }
  double textbook(double x) const { return std::fabs(x) > lambda ? x - lambda : 0; }
  std::vector<double> telling(DType dtype) const { return thresholds(lambda, dtype); }
  std::string c(const std::string& x) const {
    const std::string by = float_literal(lambda);
    return "lathe::select(lathe::gt(" + x + ", " + by + "), " + x + " - " + by +
           ", lathe::select(lathe::lt(" + x + ", " + float_literal(-lambda) + "), " + x + " + " + by +
           ", 0.0f))";
  }
  double lambda;
};

/// x, or 0 where its magnitude is at most lambda: a jump, on both sides of which a kernel may take
/// what lies between lambda and its nearest fp32.
struct Hardshrink : UnaryDefaults {
  static constexpr std::string_view kName = "hardshrink";
  static constexpr double kFlops = 2;
  static std::vector<AttrRule> rules() { return {{"lambda", AttrKind::kReal}}; }
  explicit Hardshrink(const Attrs& attrs) : lambda(attrs.real("lambda", 0.5)) {}
  double f(double x) const { return std::fabs(x) > lambda ? x : 0; }
  double spread(double x, double e, double y) const {
    const double reach = reach_to_jump(x, e);
    if (reach > 0 && std::fabs(std::fabs(x) - lambda) <= reach) return std::fabs(x) + e;
    return y == 0 ? 0 : e;
  }
  double own(double x, double) const {
    const double narrow = static_cast<float>(lambda), size = std::fabs(x);
    const bool between = size >= std::min(lambda, narrow) && size <= std::max(lambda, narrow);
    return lambda != narrow && between ? size / 0x1p-24 : 0;
  }
  double textbook(double x) const { return std::fabs(x) >= lambda ? x : 0; }
  std::vector<double> telling(DType dtype) const { return thresholds(lambda, dtype); }
  std::string c(const std::string& x) const {
    return "lathe::select(lathe::gt(lathe::abs(" + x + "), " + float_literal(lambda) + "), " + x + ", 0.0f)";
  }
  double lambda;
};

struct Hardswish : UnaryDefaults {
  static constexpr std::string_view kName = "hardswish";
  static constexpr double kFlops = 5;
  explicit Hardswish(const Attrs&) {}
  double f(double x) const { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }
  double slope(double x, double) const { return x <= -3 ? 0.5 : x >= 3 ? 1.5 : (2 * x + 3) / 6; }
  double turn() const { return -1.5; }
  double own(double x, double y) const { return std::fabs(x) + 4 * std::fabs(y); }
  std::string c(const std::string& x) const {
    return x + " * lathe::min(lathe::max(" + x + " + 3.0f, 0.0f), 6.0f) * 0.16666667f";
  }
};

struct Hardsigmoid : UnaryDefaults {
  static constexpr std::string_view kName = "hardsigmoid";
  static constexpr double kFlops = 4;
  explicit Hardsigmoid(const Attrs&) {}
  double f(double x) const { return std::min(std::max(x / 6 + 0.5, 0.0), 1.0); }
  double slope(double, double) const { return 1.0 / 6; }
  double own(double x, double y) const { return std::fabs(x) < 4 ? 1 + 2 * std::fabs(y) : 0; }
  std::string c(const std::string& x) const {
    return "lathe::min(lathe::max(" + x + " * 0.16666667f + 0.5f, 0.0f), 1.0f)";
  }
};

struct Abs : Exact {
  static constexpr std::string_view kName = "abs";
  explicit Abs(const Attrs&) {}
  double f(double x) const { return std::fabs(x); }
  std::string c(const std::string& x) const { return "lathe::abs(" + x + ")"; }
};

struct Neg : Exact {
  static constexpr std::string_view kName = "neg";
  explicit Neg(const Attrs&) {}
  double f(double x) const { return -x; }
  std::string c(const std::string& x) const { return "-" + x; }
};

}  // namespace

void add_piecewise(OpList& list) {
  add_unary<Relu, LeakyRelu, Softshrink, Hardshrink, Hardswish, Hardsigmoid, Abs, Neg>(list);
}

}  // namespace lathe::ops
