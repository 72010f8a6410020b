#include <numbers>

#include "task/ops/support/elementwise.h"
#include "task/ops/support/textbook.h"

namespace lathe::ops {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

/// Covers 1 / (1 + exp(-x)) and (1 + tanh(x / 2)) / 2, whose error is absolute.
struct Sigmoid : UnaryDefaults {
  static constexpr std::string_view kName = "sigmoid";
  static constexpr double kFlops = 4;
  static constexpr double kFloor = kFlush;
  explicit Sigmoid(const Attrs&) {}
  double f(double x) const { return logistic(x); }
  double slope(double, double y) const { return y * (1 - y); }
  double own(double x, double y) const {
    return (kTranscendental + 3 + kScaledArgument * std::fabs(x) * (1 - y)) * y + kTranscendental;
  }
  double textbook(double x) const { return textbook_sigmoid(x); }
  std::string c(const std::string& x) const { return "lathe::sigmoid(" + x + ")"; }
};

/// Computed through exp, its error near 0 is absolute, not relative.
struct Tanh : UnaryDefaults {
  static constexpr std::string_view kName = "tanh";
  static constexpr double kFloor = kFlush;
  explicit Tanh(const Attrs&) {}
  double f(double x) const { return std::tanh(x); }
  double slope(double, double y) const { return 1 - y * y; }
  double own(double, double y) const { return kTranscendental * (1 + std::fabs(y)); }
  double textbook(double x) const { return textbook_tanh(x); }
  std::string c(const std::string& x) const { return "lathe::tanh(" + x + ")"; }
};

/// Both forms of GELU: with erf, and GPT-2's approximation with tanh.
struct Gelu : UnaryDefaults {
  static constexpr std::string_view kName = "gelu";
  static constexpr double kFlops = 6;
  static constexpr double kFloor = kFlush;
  static constexpr double kRootTwoOverPi = 0.79788456080286536;
  static constexpr double kCubic = 0.044715;
  static std::vector<AttrRule> rules() { return {{"approximate", AttrKind::kText, false, {"none", "tanh"}}}; }
  explicit Gelu(const Attrs& attrs) : by_tanh(attrs.text("approximate", "none") == "tanh") {}
  explicit Gelu(bool use_tanh) : by_tanh(use_tanh) {}

  double f(double x) const {
    if (by_tanh) return 0.5 * x * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x)));
    return 0.5 * x * std::erfc(-x * std::numbers::sqrt2 / 2);
  }
  double turn() const { return by_tanh ? -0.7524614220710162 : -0.7517915246935645; }
  double slope(double x, double) const {
    if (!by_tanh) {
      const double density = std::exp(-0.5 * x * x) * kRootTwoOverPi * 0.5;
      return 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2) + x * density;
    }
    const double t = std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCubic * x * x);
  }
  double own(double x, double y) const {
    const double factor = by_tanh ? kTranscendental : kRationalErf / 2;
    return factor * std::fabs(x) + kTranscendental * std::fabs(y);
  }
  double textbook(double x) const {
    return by_tanh ? 0.5 * x * (1 + textbook_tanh(kRootTwoOverPi * (x + kCubic * x * x * x))) : f(x);
  }
  std::string c(const std::string& x) const {
    const std::string half = "0.5f * " + x + " * (1.0f + ";
    if (!by_tanh) return half + "lathe::erf(" + x + " * 0.70710678f))";
    return half + "lathe::tanh(0.79788456f * (" + x + " + 0.044715f * " + x + " * " + x + " * " + x + ")))";
  }
  static std::vector<OpMutant> mutants() {
    return {{"other_approximation", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const Gelu other(!Gelu(site.attrs).by_tanh);
               prepare(site.out, false, out);
               for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] = other.f(in[0]->data[i]);
             }}};
  }
  bool by_tanh;
};

struct Silu : UnaryDefaults {
  static constexpr std::string_view kName = "silu";
  static constexpr double kFlops = 5;
  static constexpr double kFloor = kFlush;
  explicit Silu(const Attrs&) {}
  double f(double x) const { return x * logistic(x); }
  double slope(double x, double y) const {
    const double s = logistic(x);
    return s + y * (1 - s);
  }
  double turn() const { return -1.2784645427610738; }
  /// x multiplies the sigmoid's error.
  double own(double x, double y) const {
    return (kTranscendental + 4 + kScaledArgument * std::fabs(x) * (1 - logistic(x))) * std::fabs(y) +
           kTranscendental * std::fabs(x);
  }
  double textbook(double x) const { return x * textbook_sigmoid(x); }
  std::string c(const std::string& x) const { return x + " * lathe::sigmoid(" + x + ")"; }
};

struct Elu : UnaryDefaults {
  static constexpr std::string_view kName = "elu";
  static constexpr double kFlops = 3;
  static constexpr double kFloor = kFlush;
  static std::vector<AttrRule> rules() { return {{"alpha", AttrKind::kReal}}; }
  explicit Elu(const Attrs& attrs) : alpha(attrs.real("alpha", 1)) {}
  double f(double x) const { return x < 0 ? alpha * std::expm1(x) : x; }
  double slope(double x, double y) const {
    return x < 0 ? std::fabs(y + alpha) : std::max(1.0, std::fabs(alpha));
  }
  /// Cancellation in exp(x) - 1, which some add to max(x, 0).
  double own(double x, double y) const {
    return x < 0 ? (kTranscendental + 1) * std::fabs(y + alpha) + 3 * std::fabs(y)
                 : std::fabs(alpha) + std::fabs(y);
  }
  std::string c(const std::string& x) const {
    return "lathe::select(lathe::gt(" + x + ", 0.0f), " + x + ", " + float_literal(alpha) +
           " * lathe::expm1(" + x + "))";
  }
  double alpha;
};

/// ELU of alpha 1.67, times a scale of its own: outputs keep a mean of 0 and a variance of 1.
struct Selu : UnaryDefaults {
  static constexpr std::string_view kName = "selu";
  static constexpr double kFlops = 4;
  static constexpr double kFloor = kFlush;
  static constexpr double kScale = 1.0507009873554805;
  static constexpr double kNegative = 1.7580993408473768;  ///< alpha times the scale
  explicit Selu(const Attrs&) {}
  double f(double x) const { return x < 0 ? kNegative * std::expm1(x) : kScale * x; }
  double slope(double x, double y) const { return x < 0 ? y + kNegative : kNegative; }
  /// As of ELU, with roundings of two constants and their products.
  double own(double x, double y) const {
    return x < 0 ? (kTranscendental + 1) * (y + kNegative) + 6 * std::fabs(y) : kNegative + 3 * std::fabs(y);
  }
  std::string c(const std::string& x) const {
    return "lathe::select(lathe::gt(" + x + ", 0.0f), 1.0507009873554805f * " + x +
           ", 1.7580993408473768f * lathe::expm1(" + x + "))";
  }
};

struct Softplus : UnaryDefaults {
  static constexpr std::string_view kName = "softplus";
  static constexpr double kFlops = 3;
  static constexpr double kFloor = kFlush;
  explicit Softplus(const Attrs&) {}
  double f(double x) const { return softplus_of(x); }
  double slope(double x, double) const { return logistic(x); }
  /// 1 + exp(x) is rounded to a multiple of u.
  double own(double x, double y) const { return kTranscendental + 1 + kTranscendental * y + std::fabs(x); }
  double textbook(double x) const { return textbook_softplus(x); }
  std::string c(const std::string& x) const {
    return "lathe::max(" + x + ", 0.0f) + lathe::log1p(lathe::exp(-lathe::abs(" + x + ")))";
  }
};

struct LogSigmoid : UnaryDefaults {
  static constexpr std::string_view kName = "log_sigmoid";
  static constexpr double kFlops = 4;
  static constexpr double kFloor = kFlush;
  explicit LogSigmoid(const Attrs&) {}
  double f(double x) const { return -softplus_of(-x); }
  double slope(double x, double) const { return logistic(-x); }
  /// That of softplus.
  double own(double x, double y) const {
    return kTranscendental + 1 + kTranscendental * std::fabs(y) + std::fabs(x);
  }
  double textbook(double x) const { return std::log(textbook_sigmoid(x)); }
  std::string c(const std::string& x) const {
    return "lathe::min(" + x + ", 0.0f) - lathe::log1p(lathe::exp(-lathe::abs(" + x + ")))";
  }
};

struct Mish : UnaryDefaults {
  static constexpr std::string_view kName = "mish";
  static constexpr double kFlops = 5;
  static constexpr double kFloor = kFlush;
  explicit Mish(const Attrs&) {}
  double f(double x) const { return x * std::tanh(softplus_of(x)); }
  double slope(double x, double) const {
    const double t = std::tanh(softplus_of(x));
    return t + x * (1 - t * t) * logistic(x);
  }
  double turn() const { return -1.1924312145154653; }
  double own(double x, double y) const { return (2 * kTranscendental + 1) * (std::fabs(x) + std::fabs(y)); }
  double textbook(double x) const { return x * textbook_tanh(textbook_softplus(x)); }
  std::string c(const std::string& x) const {
    return x + " * lathe::tanh(lathe::max(" + x + ", 0.0f) + lathe::log1p(lathe::exp(-lathe::abs(" + x +
           "))))";
  }
};

struct Softsign : UnaryDefaults {
  static constexpr std::string_view kName = "softsign";
  static constexpr double kFlops = 3;
  explicit Softsign(const Attrs&) {}
  double f(double x) const { return x / (1 + std::fabs(x)); }
  double slope(double x, double) const { return 1 / ((1 + std::fabs(x)) * (1 + std::fabs(x))); }
  double own(double, double y) const { return 3 * std::fabs(y); }
  std::string c(const std::string& x) const { return x + " / (1.0f + lathe::abs(" + x + "))"; }
};

}  // namespace

void add_activations(OpList& list) {
  add_unary<Sigmoid, Tanh, Gelu, Silu, Elu, Selu, Softplus, LogSigmoid, Mish, Softsign>(list);
}

}  // namespace lathe::ops
