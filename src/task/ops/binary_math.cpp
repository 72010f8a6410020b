#include <limits>

#include "task/ops/support/binary.h"

namespace lathe::ops {
namespace {

struct BinaryDefaults {
  static constexpr double kFlops = 1;
  static constexpr bool kFloatOnly = false;
  static constexpr bool kExact = false;  ///< no rounding at all
  static constexpr bool kAdds = false;
  static double own(double, double, double y) { return std::fabs(y); }
};

struct Add : BinaryDefaults {
  static constexpr std::string_view kName = "add";
  static constexpr bool kAdds = true;
  static double f(double a, double b) { return a + b; }
  static double propagated(double, double, double ea, double eb, double) { return ea + eb; }
  static std::string c(const std::string& a, const std::string& b) { return a + " + " + b; }
};

struct Sub : BinaryDefaults {
  static constexpr std::string_view kName = "sub";
  static constexpr bool kAdds = true;
  static double f(double a, double b) { return a - b; }
  static double propagated(double, double, double ea, double eb, double) { return ea + eb; }
  static std::string c(const std::string& a, const std::string& b) { return a + " - " + b; }
};

struct Mul : BinaryDefaults {
  static constexpr std::string_view kName = "mul";
  static double f(double a, double b) { return a * b; }
  static double propagated(double a, double b, double ea, double eb, double) {
    return std::fabs(a) * eb + std::fabs(b) * ea + ea * eb;
  }
  static std::string c(const std::string& a, const std::string& b) { return a + " * " + b; }
};

/// Two roundings, because kernels may multiply by the reciprocal.
struct Div : BinaryDefaults {
  static constexpr std::string_view kName = "div";
  static constexpr bool kFloatOnly = true;
  static double f(double a, double b) { return a / b; }
  /// Covers products with a refined reciprocal.
  static double own(double, double, double y) { return (kRefined + 1) * std::fabs(y); }
  static double propagated(double, double b, double ea, double eb, double y) {
    if (ea == 0 && eb == 0) return 0;
    const double nearest = std::fabs(b) - eb;
    return nearest > 0 ? (ea + std::fabs(y) * eb) / nearest : std::numeric_limits<double>::infinity();
  }
  static std::string c(const std::string& a, const std::string& b) { return a + " / " + b; }
};

struct Max : BinaryDefaults {
  static constexpr std::string_view kName = "max";
  static constexpr bool kExact = true;
  static double f(double a, double b) { return a > b || std::isnan(a) ? a : b; }
  static double own(double, double, double) { return 0; }
  static double propagated(double, double, double ea, double eb, double) { return std::max(ea, eb); }
  static std::string c(const std::string& a, const std::string& b) {
    return "lathe::max(" + a + ", " + b + ")";
  }
};

struct Min : BinaryDefaults {
  static constexpr std::string_view kName = "min";
  static constexpr bool kExact = true;
  static double f(double a, double b) { return a < b || std::isnan(a) ? a : b; }
  static double own(double, double, double) { return 0; }
  static double propagated(double, double, double ea, double eb, double) { return std::max(ea, eb); }
  static std::string c(const std::string& a, const std::string& b) {
    return "lathe::min(" + a + ", " + b + ")";
  }
};

/// For a positive base. Computed as exp(b log a), so the error grows with the exponent.
struct Pow : BinaryDefaults {
  static constexpr std::string_view kName = "pow";
  static constexpr bool kFloatOnly = true;
  static double f(double a, double b) { return std::pow(a, b); }
  static double own(double a, double b, double y) {
    return (kTranscendental * (1 + std::fabs(b * std::log(a))) + std::fabs(b)) * std::fabs(y) +
           kFlush / 0x1p-24;
  }
  static double propagated(double a, double b, double ea, double eb, double y) {
    return std::fabs(y) * (std::fabs(b / a) * ea + std::fabs(std::log(a)) * eb);
  }
  static std::string c(const std::string& a, const std::string& b) {
    return "lathe::pow(" + a + ", " + b + ")";
  }
};

template <class... Formulas>
void add_binary(OpList& list) {
  (list.push_back(std::make_unique<BinaryOp<Formulas>>()), ...);
}

}  // namespace

void add_binary_math(OpList& list) { add_binary<Add, Sub, Mul, Div, Max, Min, Pow>(list); }

}  // namespace lathe::ops
