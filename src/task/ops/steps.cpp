#include "task/ops/support/elementwise.h"
#include "task/ops/support/jumps.h"

namespace lathe::ops {
namespace {

/// A monotone step function, exact but for which step its argument is on. Its `textbook` is the
/// mistake that differs at ties or for one sign.
template <class F>
struct Steps : UnaryDefaults {
  double spread(double x, double e, double) const {
    return spread_of_steps([&](double at) { return static_cast<const F&>(*this).f(at); }, x, e);
  }
  double own(double, double) const { return 0; }
  /// Whole numbers, halves, the largest number below a half, which added to it gives 1, and an odd
  /// number that no fraction fits behind.
  static std::vector<double> telling(DType dtype) {
    std::vector<double> values = {0.0, -0.0};
    for (const double at : {0.5, 1.0, 1.5, 2.0, 2.5, 3.5}) add_threshold(at, dtype, values);
    for (const double odd : {1 / info(dtype).unit_roundoff - 1, 0.5 / info(dtype).unit_roundoff + 1}) {
      if (odd > info(dtype).largest / 2) continue;
      values.push_back(odd);
      values.push_back(-odd);
    }
    return values;
  }
};

/// To the nearest whole number, ties to the even one.
struct Round : Steps<Round> {
  static constexpr std::string_view kName = "round";
  explicit Round(const Attrs&) {}
  double f(double x) const { return std::nearbyint(x); }
  double textbook(double x) const { return std::round(x); }
  std::string c(const std::string& x) const { return "lathe::round(" + x + ")"; }
};

struct Floor : Steps<Floor> {
  static constexpr std::string_view kName = "floor";
  explicit Floor(const Attrs&) {}
  double f(double x) const { return std::floor(x); }
  double textbook(double x) const { return std::trunc(x); }
  std::string c(const std::string& x) const { return "lathe::floor(" + x + ")"; }
};

struct Ceil : Steps<Ceil> {
  static constexpr std::string_view kName = "ceil";
  explicit Ceil(const Attrs&) {}
  double f(double x) const { return std::ceil(x); }
  double textbook(double x) const { return std::floor(x) + 1; }
  std::string c(const std::string& x) const { return "lathe::ceil(" + x + ")"; }
};

/// Towards zero.
struct Trunc : Steps<Trunc> {
  static constexpr std::string_view kName = "trunc";
  explicit Trunc(const Attrs&) {}
  double f(double x) const { return std::trunc(x); }
  double textbook(double x) const { return std::floor(x); }
  std::string c(const std::string& x) const { return "lathe::trunc(" + x + ")"; }
};

/// -1, 0 or 1; 0 for a zero of either sign.
struct Sign : Steps<Sign> {
  static constexpr std::string_view kName = "sign";
  explicit Sign(const Attrs&) {}
  double f(double x) const { return x > 0 ? 1 : x < 0 ? -1 : x; }
  double textbook(double x) const { return std::copysign(1.0, x); }
  static std::vector<double> telling(DType dtype) {
    std::vector<double> values = {0.0, -0.0};
    add_threshold(0, dtype, values);
    return values;
  }
  std::string c(const std::string& x) const {
    return "lathe::select(lathe::gt(" + x + ", 0.0f), 1.0f, lathe::select(lathe::lt(" + x +
           ", 0.0f), -1.0f, " + x + "))";
  }
};

/// That of the power of two at or below |x|, as a format with a shared scale takes it; -126 of what
/// is smaller than fp32's normal numbers, which a kernel may flush.
struct Exponent : Steps<Exponent> {
  static constexpr std::string_view kName = "exponent";
  explicit Exponent(const Attrs&) {}
  double f(double x) const {
    if (std::isnan(x) || std::isinf(x)) return std::fabs(x);
    return std::fabs(x) < 0x1p-126 ? -126 : std::ilogb(x);
  }
  double spread(double x, double e, double y) const {
    const double size = std::fabs(x), reach = reach_to_jump(size, e);
    if (reach == 0) return 0;
    return std::max(std::fabs(f(std::max(0.0, size - reach)) - y), std::fabs(f(size + reach) - y));
  }
  double textbook(double x) const { return std::floor(std::log2(static_cast<float>(std::fabs(x)))); }
  static std::vector<double> telling(DType dtype) {
    std::vector<double> values = {1, 2};
    for (const double power : {0.125, 8.0, 32.0, 128.0}) add_threshold(power, dtype, values);
    return values;
  }
  std::string c(const std::string& x) const { return "lathe::exponent(" + x + ")"; }
};

}  // namespace

void add_steps(OpList& list) { add_unary<Round, Floor, Ceil, Trunc, Sign, Exponent>(list); }

}  // namespace lathe::ops
