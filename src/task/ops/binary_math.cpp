#include <limits>
#include <numbers>
#include <optional>

#include "task/ops/support/binary.h"
#include "task/ops/support/jumps.h"
#include "task/ops/support/textbook.h"

namespace lathe::ops {
namespace {

struct BinaryDefaults {
  static constexpr double kFlops = 1;
  static constexpr bool kFloatOnly = false;
  static constexpr bool kExact = false;  ///< no rounding at all
  static constexpr bool kAdds = false;
  static constexpr bool kKeepsWhole = false;
  static constexpr bool kMayIgnoreSecond = false;
  static double own(double, double, double y) { return std::fabs(y); }
};

struct Add : BinaryDefaults {
  static constexpr std::string_view kName = "add";
  static constexpr bool kKeepsWhole = true;
  static constexpr bool kAdds = true;
  static double f(double a, double b) { return a + b; }
  static double propagated(double, double, double ea, double eb, double) { return ea + eb; }
  static std::string c(const std::string& a, const std::string& b) { return a + " + " + b; }
};

struct Sub : BinaryDefaults {
  static constexpr std::string_view kName = "sub";
  static constexpr bool kKeepsWhole = true;
  static constexpr bool kAdds = true;
  static double f(double a, double b) { return a - b; }
  static double propagated(double, double, double ea, double eb, double) { return ea + eb; }
  static std::string c(const std::string& a, const std::string& b) { return a + " - " + b; }
};

struct Mul : BinaryDefaults {
  static constexpr std::string_view kName = "mul";
  static constexpr bool kKeepsWhole = true;
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

/// a, times the slope b where it is negative.
struct Prelu : BinaryDefaults {
  static constexpr std::string_view kName = "prelu";
  static constexpr double kFlops = 2;
  static constexpr bool kFloatOnly = true;
  static constexpr bool kMayIgnoreSecond = true;
  static double f(double a, double b) { return a < 0 ? a * b : a; }
  static double own(double a, double, double y) { return a < 0 ? std::fabs(y) : 0; }
  static double propagated(double a, double b, double ea, double eb, double) {
    const double below = std::fabs(a) * eb + std::fabs(b) * ea + ea * eb;
    if (std::fabs(a) > ea) return a < 0 ? below : ea;
    return std::max(below, ea);
  }
  static std::string c(const std::string& a, const std::string& b) {
    return "lathe::select(lathe::gt(" + a + ", 0.0f), " + a + ", " + a + " * " + b + ")";
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
    double most = std::fabs(y) * (std::fabs(b / a) * ea + std::fabs(std::log(a)) * eb);
    if (ea <= 0x1p-20 * a && eb <= 0x1p-20) return most;
    for (const double base : {std::max(a - ea, 0.0), a + ea})
      for (const double exponent : {b - eb, b + eb}) most = std::max(most, std::fabs(f(base, exponent) - y));
    return most;
  }
  static std::string c(const std::string& a, const std::string& b) {
    return "lathe::pow(" + a + ", " + b + ")";
  }
};

/// By a whole number that is zero nothing can be divided, and negative ones are where languages
/// differ.
std::optional<ValueRange> range_of_divisor(std::size_t input, DType dtype) {
  if (input != 1 || info(dtype).is_float) return std::nullopt;
  return ValueRange{1, info(dtype).largest};
}

/// Of whole numbers, rounded down.
struct FloorDivide : BinaryDefaults {
  static constexpr std::string_view kName = "floor_divide";
  static constexpr bool kExact = true;
  static constexpr std::string_view kWholeOnly = "of floats, write floor(q) after q = div(a, b)";
  static std::optional<ValueRange> takes(std::size_t input, DType dtype) {
    return range_of_divisor(input, dtype);
  }
  static double f(double a, double b) {
    const double rest = std::fmod(a, b), q = (a - rest) / b;
    return rest != 0 && (rest < 0) != (b < 0) ? q - 1 : q;
  }
  static double propagated(double, double b, double ea, double eb, double y) {
    if (ea == 0 && eb == 0) return 0;
    const double nearest = std::fabs(b) - eb;
    return nearest > 0 ? (ea + std::fabs(y) * eb) / nearest + 1 : std::numeric_limits<double>::infinity();
  }
  static double textbook(double a, double b) { return std::trunc(a / b); }
  static std::vector<double> telling(DType) { return {0, -1, 1, -7, 7, -8, 8, -128, 127}; }
  static std::string c(const std::string& a, const std::string& b) {
    return "lathe::floor_divide(" + a + ", " + b + ")";
  }
};

/// What is left of a beyond whole multiples of b. Kernels may compute a - q b, q = f(a / b) for a
/// step function f, with the product rounded, and a quotient that is nearly whole may be rounded to
/// it; one that is whole is exact.
template <class F>
struct DivisionRest : BinaryDefaults {
  static constexpr double kFlops = 3;
  static std::optional<ValueRange> takes(std::size_t input, DType dtype) {
    return range_of_divisor(input, dtype);
  }
  static double own(double a, double b, double y) {
    return std::fabs(a) + std::fabs(y) + jump(a, b, quotient_error(a, b, 0, 0)) / 0x1p-24;
  }
  static double propagated(double a, double b, double ea, double eb, double) {
    if (ea == 0 && eb == 0) return 0;
    const double e = quotient_error(a, b, ea, eb);
    return ea + (std::fabs(a / b) + e + 1) * eb + jump(a, b, e);
  }

 private:
  /// As seen from the next whole number: none where the quotient is one.
  static double quotient_error(double a, double b, double ea, double eb) {
    const double q = a / b, nearest = std::fabs(b) - eb;
    const double carried = ea == 0 && eb == 0 ? 0
                           : nearest > 0      ? (ea + std::fabs(q) * eb) / nearest
                                              : std::numeric_limits<double>::infinity();
    const bool whole = std::fmod(a, b) == 0;
    return carried + (whole ? 0 : 0x1p-24 * std::fabs(q));
  }
  static double jump(double a, double b, double e) {
    const double q = a / b;
    if (std::isnan(q) || std::isinf(q)) return 0;
    return e > 0 && F::step(q - e) != F::step(q + e) ? std::fabs(b) : 0;
  }
};

/// The rest with the sign of a: the quotient is truncated.
struct Fmod : DivisionRest<Fmod> {
  static constexpr std::string_view kName = "fmod";
  static double step(double q) { return std::trunc(q); }
  static double f(double a, double b) { return std::fmod(a, b); }
  static double textbook(double a, double b) { return a - b * std::floor(a / b); }
  static std::string c(const std::string& a, const std::string& b) {
    return "lathe::fmod(" + a + ", " + b + ")";
  }
};

/// The rest with the sign of b, as of Python's %: the quotient is rounded down.
struct Remainder : DivisionRest<Remainder> {
  static constexpr std::string_view kName = "remainder";
  static double step(double q) { return std::floor(q); }
  static double f(double a, double b) {
    const double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  static double textbook(double a, double b) { return std::fmod(a, b); }
  static std::string c(const std::string& a, const std::string& b) {
    return "lathe::remainder(" + a + ", " + b + ")";
  }
};

/// The angle of the point (b, a). It jumps by a whole turn across the negative half of the axis,
/// where the sign of a zero says which side it is on.
struct Atan2 : BinaryDefaults {
  static constexpr std::string_view kName = "atan2";
  static constexpr bool kFloatOnly = true;
  static double f(double a, double b) { return std::atan2(a, b); }
  static double own(double, double, double y) { return (kTranscendental + kRefined) * std::fabs(y); }
  static double propagated(double a, double b, double ea, double eb, double) {
    if (ea == 0 && eb == 0) return 0;
    const double across = reach_to_jump(a, ea);
    if (across > 0 && std::fabs(a) <= across && b - eb <= 0) return 2 * std::numbers::pi;
    const double off = std::hypot(ea, eb), nearest = std::hypot(a, b) - off;
    return nearest > 0 ? std::min(off / nearest, 2 * std::numbers::pi) : 2 * std::numbers::pi;
  }
  static double textbook(double a, double b) { return std::atan(a / b); }
  static std::string c(const std::string& a, const std::string& b) {
    return "lathe::atan2(" + a + ", " + b + ")";
  }
};

/// The logarithm of exp(a) + exp(b), from the larger one on, so that neither overflows.
struct LogAddExp : BinaryDefaults {
  static constexpr std::string_view kName = "logaddexp";
  static constexpr double kFlops = 5;
  static constexpr bool kFloatOnly = true;
  static double f(double a, double b) { return std::max(a, b) + tail(a, b); }
  static double own(double a, double b, double y) {
    const double apart = distance(a, b), share = std::exp(-apart) / (1 + std::exp(-apart));
    if (std::isinf(apart)) return std::fabs(y);
    return std::fabs(y) + kTranscendental * tail(a, b) +
           share * (kTranscendental + (1 + kScaledArgument) * apart);
  }
  static double propagated(double, double, double ea, double eb, double) { return std::max(ea, eb); }
  static double textbook(double a, double b) { return std::log(textbook_exp(a) + textbook_exp(b)); }
  static std::string c(const std::string& a, const std::string& b) {
    const std::string apart = "lathe::select(lathe::eq(" + a + ", " + b + "), 0.0f, " + a + " - " + b + ")";
    return "lathe::max(" + a + ", " + b + ") + lathe::log1p(lathe::exp(-lathe::abs(" + apart + ")))";
  }

 private:
  /// Of two logarithms of zero, -inf both, it is 0.
  static double distance(double a, double b) { return a == b ? 0 : std::fabs(a - b); }
  static double tail(double a, double b) { return std::log1p(std::exp(-distance(a, b))); }
};

template <class... Formulas>
void add_binary(OpList& list) {
  (list.push_back(std::make_unique<BinaryOp<Formulas>>()), ...);
}

}  // namespace

void add_binary_math(OpList& list) {
  add_binary<Add, Sub, Mul, Div, Max, Min, Prelu, Pow, FloorDivide, Fmod, Remainder, Atan2, LogAddExp>(list);
}

}  // namespace lathe::ops
