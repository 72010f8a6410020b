#include "task/ops/support/elementwise.h"

namespace lathe::ops {
namespace {

struct Exact : UnaryDefaults {
  static constexpr double kFloor = 0;
  static double slope(double, double) { return 1; }
  static double own(double, double) { return 0; }
};

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

struct Hardswish : UnaryDefaults {
  static constexpr std::string_view kName = "hardswish";
  static constexpr double kFlops = 5;
  explicit Hardswish(const Attrs&) {}
  double f(double x) const { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }
  double slope(double x, double) const { return x <= -3 ? 0.5 : x >= 3 ? 1.5 : (2 * x + 3) / 6; }
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

void add_piecewise(OpList& list) { add_unary<Relu, LeakyRelu, Hardswish, Hardsigmoid, Abs, Neg>(list); }

}  // namespace lathe::ops
