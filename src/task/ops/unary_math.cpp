#include <limits>
#include <numbers>

#include "task/ops/support/elementwise.h"
#include "task/ops/support/jumps.h"
#include "task/ops/support/textbook.h"

namespace lathe::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// |f(x') - y| is largest at an end of [x - e, x + e] for a monotone f.
template <class F>
double spread_of_monotone(const F& formula, double x, double e, double y) {
  if (e == 0) return 0;
  const double low = std::fabs(formula.f(x - e) - y);
  const double high = std::fabs(formula.f(x + e) - y);
  return std::isnan(low) || std::isnan(high) ? kInfinity : std::max(low, high);
}

struct Transcendental : UnaryDefaults {
  static constexpr double kFloor = kFlush;
};

/// Covers implementations that compute 2^(x log2(e)).
struct Exp : Transcendental {
  static constexpr std::string_view kName = "exp";
  explicit Exp(const Attrs&) {}
  double f(double x) const { return std::exp(x); }
  double slope(double, double y) const { return y; }
  double own(double x, double y) const { return (kTranscendental + kScaledArgument * std::fabs(x)) * y; }
  std::string c(const std::string& x) const { return "lathe::exp(" + x + ")"; }
};

/// Covers exp(x ln 2), whose constant in fp32 adds little to the product's rounding.
struct Exp2 : Transcendental {
  static constexpr std::string_view kName = "exp2";
  explicit Exp2(const Attrs&) {}
  double f(double x) const { return std::exp2(x); }
  double slope(double, double y) const { return std::numbers::ln2 * y; }
  double own(double x, double y) const { return (kTranscendental + 0.75 * std::fabs(x)) * y; }
  std::string c(const std::string& x) const { return "lathe::exp2(" + x + ")"; }
};

/// As exact for small results as for large ones.
struct Expm1 : Transcendental {
  static constexpr std::string_view kName = "expm1";
  explicit Expm1(const Attrs&) {}
  double f(double x) const { return std::expm1(x); }
  double slope(double, double y) const { return y + 1; }
  double own(double x, double y) const {
    return kTranscendental * std::fabs(y) + kScaledArgument * std::fabs(x) * (y + 1);
  }
  double textbook(double x) const { return static_cast<float>(textbook_exp(x)) - 1.0; }
  std::string c(const std::string& x) const { return "lathe::expm1(" + x + ")"; }
};

/// Near 1 the error is absolute: one rounding of the argument.
struct Log : Transcendental {
  static constexpr std::string_view kName = "log";
  explicit Log(const Attrs&) {}
  double f(double x) const { return std::log(x); }
  double spread(double x, double e, double y) const { return spread_of_monotone(*this, x, e, y); }
  double own(double, double y) const { return kTranscendental * std::fabs(y) + 1; }
  std::string c(const std::string& x) const { return "lathe::log(" + x + ")"; }
};

/// Covers log(x) times a constant.
struct Log2 : Transcendental {
  static constexpr std::string_view kName = "log2";
  explicit Log2(const Attrs&) {}
  double f(double x) const { return std::log2(x); }
  double spread(double x, double e, double y) const { return spread_of_monotone(*this, x, e, y); }
  double own(double, double y) const { return (kTranscendental + 2) * std::fabs(y) + std::numbers::log2e; }
  std::string c(const std::string& x) const { return "lathe::log2(" + x + ")"; }
};

struct Log1p : Transcendental {
  static constexpr std::string_view kName = "log1p";
  explicit Log1p(const Attrs&) {}
  double f(double x) const { return std::log1p(x); }
  double spread(double x, double e, double y) const { return spread_of_monotone(*this, x, e, y); }
  /// Small results are as exact as large ones: what else is it for?
  double own(double, double y) const { return kTranscendental * std::fabs(y); }
  double textbook(double x) const { return std::log(static_cast<float>(1 + x)); }
  std::string c(const std::string& x) const { return "lathe::log1p(" + x + ")"; }
};

/// Covers Abramowitz and Stegun 7.1.26, whose absolute error is 2.5 u before its terms are rounded.
struct Erf : Transcendental {
  static constexpr std::string_view kName = "erf";
  explicit Erf(const Attrs&) {}
  double f(double x) const { return std::erf(x); }
  double slope(double x, double) const { return 2 * std::numbers::inv_sqrtpi * std::exp(-x * x); }
  double own(double, double y) const { return kRationalErf + kTranscendental * std::fabs(y); }
  std::string c(const std::string& x) const { return "lathe::erf(" + x + ")"; }
};

struct Sin : Transcendental {
  static constexpr std::string_view kName = "sin";
  explicit Sin(const Attrs&) {}
  double f(double x) const { return std::sin(x); }
  double spread(double x, double e, double) const { return (std::fabs(std::cos(x)) + 0.5 * e) * e; }
  double own(double x, double) const { return kTranscendental + std::fabs(x); }
  std::string c(const std::string& x) const { return "lathe::sin(" + x + ")"; }
};

struct Cos : Transcendental {
  static constexpr std::string_view kName = "cos";
  explicit Cos(const Attrs&) {}
  double f(double x) const { return std::cos(x); }
  double spread(double x, double e, double) const { return (std::fabs(std::sin(x)) + 0.5 * e) * e; }
  double own(double x, double) const { return kTranscendental + std::fabs(x); }
  std::string c(const std::string& x) const { return "lathe::cos(" + x + ")"; }
};

/// Covers the sine over the cosine, whose error is the argument's where the cosine is small:
/// nothing is known beside a pole that it reaches.
struct Tan : Transcendental {
  static constexpr std::string_view kName = "tan";
  explicit Tan(const Attrs&) {}
  double f(double x) const { return std::tan(x); }
  double spread(double x, double e, double y) const {
    if (e == 0) return 0;
    const auto branch = [](double at) { return std::floor(at * std::numbers::inv_pi + 0.5); };
    return branch(x - e) == branch(x + e) ? spread_of_monotone(*this, x, e, y) : kInfinity;
  }
  double own(double x, double y) const {
    const double error = kTranscendental + std::fabs(x), cosine = std::fabs(std::cos(x));
    const double nearest = cosine - 0x1p-24 * error;
    if (nearest < cosine / 2) return kInfinity;
    return error * (1 + std::fabs(y)) / nearest + kRefined * std::fabs(y);
  }
  std::string c(const std::string& x) const { return "lathe::tan(" + x + ")"; }
};

/// Inverse functions: as exact for small results as for large ones, also if they are made of an arc
/// tangent, a root and a quotient.
struct Inverse : Transcendental {
  static double own(double, double y) { return (kTranscendental + kRefined) * std::fabs(y); }
};

struct Atan : Inverse {
  static constexpr std::string_view kName = "atan";
  explicit Atan(const Attrs&) {}
  double f(double x) const { return std::atan(x); }
  double spread(double x, double e, double y) const { return spread_of_monotone(*this, x, e, y); }
  std::string c(const std::string& x) const { return "lathe::atan(" + x + ")"; }
};

/// What is defined from -1 to 1, and steep there.
struct OfSine : Inverse {
  static std::vector<double> telling(DType dtype) {
    const double below = 1 - info(dtype).unit_roundoff;
    return {0.0, -0.0, 1.0, -1.0, below, -below, 1 - 0x1p-8, 0x1p-8 - 1};
  }
};

struct Asin : OfSine {
  static constexpr std::string_view kName = "asin";
  explicit Asin(const Attrs&) {}
  double f(double x) const { return std::asin(x); }
  double spread(double x, double e, double y) const { return spread_of_monotone(*this, x, e, y); }
  /// Covers the root of 1 - x x, whose rounding shows most where x is near 1 and y is not small.
  static double own(double, double y) { return (kTranscendental + kRefined + 2) * std::fabs(y); }
  std::string c(const std::string& x) const { return "lathe::asin(" + x + ")"; }
};

struct Acos : OfSine {
  static constexpr std::string_view kName = "acos";
  explicit Acos(const Attrs&) {}
  double f(double x) const { return std::acos(x); }
  double spread(double x, double e, double y) const { return spread_of_monotone(*this, x, e, y); }
  double textbook(double x) const { return std::numbers::pi_v<float> / 2 - static_cast<float>(std::asin(x)); }
  std::string c(const std::string& x) const { return "lathe::acos(" + x + ")"; }
};

/// Covers exponentials less one. As exact for small results as for large ones.
struct Sinh : Transcendental {
  static constexpr std::string_view kName = "sinh";
  explicit Sinh(const Attrs&) {}
  double f(double x) const { return std::sinh(x); }
  double slope(double x, double) const { return std::cosh(x); }
  double own(double x, double y) const {
    return (kTranscendental + 4) * std::fabs(y) + kScaledArgument * std::fabs(x) * std::cosh(x);
  }
  double textbook(double x) const {
    const auto up = static_cast<float>(textbook_exp(x)), down = static_cast<float>(textbook_exp(-x));
    return (up - down) / 2;
  }
  static std::vector<double> telling(DType) { return {0x1p-4, -0x1p-6, 0x1p-8, -0x1p-10, 0x1p-12}; }
  std::string c(const std::string& x) const { return "lathe::sinh(" + x + ")"; }
};

struct Cosh : Transcendental {
  static constexpr std::string_view kName = "cosh";
  explicit Cosh(const Attrs&) {}
  double f(double x) const { return std::cosh(x); }
  double slope(double x, double) const { return std::sinh(x); }
  double own(double x, double y) const {
    return (kTranscendental + 2) * y + kScaledArgument * std::fabs(x * std::sinh(x));
  }
  std::string c(const std::string& x) const { return "lathe::cosh(" + x + ")"; }
};

struct Sqrt : UnaryDefaults {
  static constexpr std::string_view kName = "sqrt";
  explicit Sqrt(const Attrs&) {}
  double f(double x) const { return std::sqrt(x); }
  double spread(double x, double e, double) const { return e == 0 ? 0 : sqrt_error(x, e); }
  double own(double, double y) const { return kRefined * y; }
  std::string c(const std::string& x) const { return "lathe::sqrt(" + x + ")"; }
};

struct Rsqrt : UnaryDefaults {
  static constexpr std::string_view kName = "rsqrt";
  explicit Rsqrt(const Attrs&) {}
  double f(double x) const { return 1 / std::sqrt(x); }
  double spread(double x, double e, double y) const { return spread_of_monotone(*this, x, e, y); }
  double own(double, double y) const { return kTranscendental * y; }
  std::string c(const std::string& x) const { return "lathe::rsqrt(" + x + ")"; }
};

struct Reciprocal : UnaryDefaults {
  static constexpr std::string_view kName = "reciprocal";
  explicit Reciprocal(const Attrs&) {}
  double f(double x) const { return 1 / x; }
  double spread(double x, double e, double y) const {
    return e > 0 && e >= std::fabs(x) ? kInfinity : spread_of_monotone(*this, x, e, y);
  }
  double own(double, double y) const { return kRefined * std::fabs(y); }
  std::string c(const std::string& x) const { return "1.0f / " + x; }
};

struct Square : UnaryDefaults {
  static constexpr std::string_view kName = "square";
  explicit Square(const Attrs&) {}
  double f(double x) const { return x * x; }
  double spread(double x, double e, double) const { return (2 * std::fabs(x) + e) * e; }
  double own(double, double y) const { return y; }
  std::string c(const std::string& x) const { return x + " * " + x; }
};

/// The values in another dtype. The reference keeps them exact in a floating-point format; the
/// format's rounding is added to the bound when a node is stored in it. To whole numbers they are
/// truncated, and those beyond the dtype's range become its ends.
class Cast final : public NamedOp {
 public:
  Cast()
      : NamedOp(
            {"cast",
             OpClass::kElementwise,
             1,
             1,
             {{"dtype",
               AttrKind::kText,
               true,
               {"fp64", "fp32", "fp16", "bf16", "fp8e4m3", "fp8e5m2", "int8", "uint8", "int32", "int64"}}}}) {
  }

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_TRY(const DType dtype, parse_dtype(context.attrs.text("dtype", "")));
    return SymbolicType{dtype, context.in[0].shape};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    out = *in[0];
    const DTypeInfo& type = *to(site.attrs);
    if (type.is_float) return;
    const auto whole = [&](double x) {
      return std::clamp(numerics.textbook ? std::nearbyint(x) : std::trunc(x), type.lowest, type.largest);
    };
    for (std::size_t i = 0; i < out.data.size(); ++i) {
      const double x = out.data[i];
      out.data[i] = whole(x);
      if (!out.err.empty()) out.err[i] = spread_of_steps(whole, x, out.err[i]);
    }
  }

  double flops(const OpSite&) const override { return 0; }

  std::string c_expression(const Attrs& attrs, std::span<const std::string> operands) const override {
    const DTypeInfo* const type = to(attrs);
    if (type == nullptr || type->is_float) return operands[0];
    return "lathe::to_" + std::string(type->name) + "(" + operands[0] + ")";
  }

  std::vector<double> telling(const Attrs& attrs, std::size_t, DType dtype) const override {
    std::vector<double> values;
    if (!to(attrs)->is_float && info(dtype).is_float)
      for (const double at : {0.0, 0.5, 1.0, 1.5, 2.0}) add_threshold(at, dtype, values);
    return values;
  }

 private:
  /// nullptr for none.
  static const DTypeInfo* to(const Attrs& attrs) {
    const Result<DType> dtype = parse_dtype(attrs.text("dtype", ""));
    return dtype.ok() ? &info(*dtype) : nullptr;
  }
};

}  // namespace

void add_unary_math(OpList& list) {
  add_unary<Exp, Exp2, Expm1, Log, Log2, Log1p, Erf, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Sqrt, Rsqrt,
            Reciprocal, Square>(list);
  list.push_back(std::make_unique<Cast>());
}

}  // namespace lathe::ops
