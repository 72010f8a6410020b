#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/policy/shared_object.h"

namespace lathe {
namespace {

using Kernel = void(const float*, const float*, float*, std::int64_t);

struct Function {
  std::string name;
  double (*exact)(double);
  double max_ulp;
};

void PrintTo(const Function& function, std::ostream* out) { *out << function.name; }

double sigmoid_exact(double x) { return 1 / (1 + std::exp(-x)); }
double rsqrt_exact(double x) { return 1 / std::sqrt(x); }
double exact_tanh(double x) { return std::tanh(x); }

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {"exp", [](double x) { return std::exp(x); }, 1.1},
      {"exp2", [](double x) { return std::exp2(x); }, 1.3},
      {"expm1", [](double x) { return std::expm1(x); }, 2.0},
      {"log", [](double x) { return std::log(x); }, 1.1},
      {"log2", [](double x) { return std::log2(x); }, 2.0},
      {"log1p", [](double x) { return std::log1p(x); }, 2.0},
      {"sigmoid", sigmoid_exact, 2.5},
      {"tanh", exact_tanh, 2.0},
      {"erf", [](double x) { return std::erf(x); }, 5.0},
      {"rsqrt", rsqrt_exact, 1.5},
      {"sqrt", [](double x) { return std::sqrt(x); }, 0.51},
      {"sin", [](double x) { return std::sin(x); }, 2.0},
      {"cos", [](double x) { return std::cos(x); }, 2.0},
      {"tan", [](double x) { return std::tan(x); }, 4.0},
      {"asin", [](double x) { return std::asin(x); }, 4.0},
      {"acos", [](double x) { return std::acos(x); }, 4.0},
      {"atan", [](double x) { return std::atan(x); }, 3.0},
      {"sinh", [](double x) { return std::sinh(x); }, 4.0},
      {"cosh", [](double x) { return std::cosh(x); }, 3.0},
  };
  return all;
}

const SharedObject& library() {
  static const SharedObject built = [] {
    std::string text = "#include <lathe/cpu.h>\nusing namespace lathe;\n";
    const auto add = [&](const std::string& name, const std::string& call) {
      text += "extern \"C\" void f_" + name +
              "(const float* x, const float* y, float* z, int64_t n) {\n"
              "  for (int64_t i = 0; i < n; i += kLanes) {\n    const maskv m = first_lanes(n - i);\n"
              "    const f32v a = load(x + i, m), b = load(y + i, m);\n    (void)b;\n    store(z + i, " +
              call + ", m);\n  }\n}\n";
    };
    for (const Function& f : functions()) add(f.name, f.name + "(a)");
    add("pow", "pow(a, b)");
    add("atan2", "atan2(a, b)");
    add("fmod", "fmod(a, b)");
    add("remainder", "remainder(a, b)");
    add("trunc", "trunc(a)");
    add("to_int8", "to_int8(a)");
    add("max", "max(a, b)");
    add("min", "min(a, b)");
    add("prefix_sum", "prefix_sum(a)");
    add("reduce_max", "f32v(reduce_max(a))");
    add("reduce_add", "f32v(reduce_add(a))");
    text +=
        "extern \"C\" void f_transpose(const float* x, const float* y, float* z, int64_t n) {\n"
        "  transpose_block(x, int64_t(y[0]), z, int64_t(y[1]), int64_t(y[2]), int64_t(y[3])); (void)n;\n}\n"
        "extern \"C\" int64_t lanes() { return kLanes; }\n";
    return SharedObject(text);
  }();
  return built;
}

std::vector<float> run(const std::string& name, const std::vector<float>& x, std::vector<float> y = {}) {
  y.resize(x.size());
  std::vector<float> z(x.size());
  library().function<Kernel>("f_" + name)(x.data(), y.data(), z.data(), static_cast<std::int64_t>(x.size()));
  return z;
}

/// |got - want| in units of the last place of fp32 at `want`; denormals count in the smallest
/// denormal.
double ulps(float got, double want) {
  const float rounded = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    return std::abs(want) > 3.40282e38 ? 0.5 : 1e30;
  }
  if (std::isnan(got)) return 1e30;
  const int exponent = want == 0 ? -149 : std::max(std::ilogb(want) - 23, -149);
  return std::abs(got - want) / std::ldexp(1.0, exponent);
}

class VectorMath : public testing::TestWithParam<Function> {};

TEST_P(VectorMath, StaysWithinItsErrorOverAllMagnitudes) {
  const Function& f = GetParam();
  const bool periodic = f.name == "sin" || f.name == "cos" || f.name == "tan";
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 4093) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!periodic || std::abs(value) < 30000.0f) x.push_back(value);
  }
  for (int i = -200000; i < 200000; ++i) x.push_back(static_cast<float>(i) * 0.00061f);
  const std::vector<float> y = run(f.name, x);
  double worst = 0;
  float at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double error = ulps(y[i], f.exact(x[i]));
    // Near a zero of sin the relative error grows with the reduced argument's; count against 2^-24
    // there.
    if (periodic) error = std::min(error, std::abs(y[i] - f.exact(x[i])) * 0x1p24);
    if (error > worst) worst = error, at = x[i];
  }
  std::printf("%-8s max %.3f ulp at %g\n", f.name.c_str(), worst, static_cast<double>(at));
  EXPECT_LE(worst, f.max_ulp) << "at " << at;
}

TEST_P(VectorMath, HandlesSpecialValuesLikeLibm) {
  const Function& f = GetParam();
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {0.0f, inf, std::nanf(""), 1.0f, -1.0f, 1e-45f, 1e-39f, 88.8f, -104.5f};
  if (f.name != "rsqrt") x.insert(x.end(), {-0.0f, -inf});
  const std::vector<float> y = run(f.name, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(ulps(y[i], f.exact(x[i])), f.max_ulp) << f.name << "(" << x[i] << ") = " << y[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, VectorMath, testing::ValuesIn(functions()),
                         [](const auto& test) { return test.param.name; });

/// All quadrants, magnitudes far apart, and zeros of both signs.
TEST(Atan2, StaysWithinThreeUlp) {
  std::vector<float> y, x;
  for (const float a : {0.0f, -0.0f, 1.0f, -1.0f, 1e-30f, -3e30f})
    for (const float b : {0.0f, -0.0f, 2.0f, -2.0f, 1e-30f, -3e30f}) y.push_back(a), x.push_back(b);
  for (int i = 0; i < 400000; ++i) {
    const double turn = i * 1.57e-5, size = std::exp((i % 89) - 44.0);
    y.push_back(static_cast<float>(std::sin(turn) * size));
    x.push_back(static_cast<float>(std::cos(turn) * size));
  }
  const std::vector<float> z = run("atan2", y, x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = std::atan2(static_cast<double>(y[i]), static_cast<double>(x[i]));
    worst = std::max(worst, ulps(z[i], want));
    ASSERT_LE(ulps(z[i], want), 3.0) << y[i] << ", " << x[i] << " gives " << z[i];
    ASSERT_EQ(std::signbit(z[i]), std::signbit(y[i]));
  }
  std::printf("atan2    max %.3f ulp\n", worst);
}

/// The rest of a division is exact, however large the quotient.
TEST(Fmod, IsExact) {
  std::vector<float> a, b;
  for (int i = 0; i < 300000; ++i) {
    a.push_back(static_cast<float>(std::exp((i % 61) - 30.0) * ((i & 1) != 0 ? 1 : -1) * (1 + i % 1013)));
    b.push_back(static_cast<float>(std::exp((i % 37) - 18.0) * ((i & 2) != 0 ? 1 : -1)));
  }
  for (int n = -50; n <= 50; ++n)
    for (const float d : {3.0f, -3.0f, 0.1f, 7.0f}) a.push_back(static_cast<float>(n) * d), b.push_back(d);
  const std::vector<float> rest = run("fmod", a, b), positive = run("remainder", a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float want = std::fmod(a[i], b[i]);
    ASSERT_EQ(rest[i], want) << a[i] << ", " << b[i];
    ASSERT_EQ(positive[i], want != 0 && (want < 0) != (b[i] < 0) ? want + b[i] : want)
        << a[i] << ", " << b[i];
  }
  EXPECT_TRUE(std::isnan(run("fmod", {1.0f}, {0.0f})[0]));
}

TEST(Trunc, GoesTowardsZeroAndSaturates) {
  const std::vector<float> x = {1.7f, -1.7f, 0.5f, -0.5f, 1e30f, -1e30f, 127.9f, -128.9f};
  EXPECT_EQ(run("trunc", x), (std::vector<float>{1, -1, 0, 0, 1e30f, -1e30f, 127, -128}));
  EXPECT_EQ(run("to_int8", x), (std::vector<float>{1, -1, 0, 0, 127, -128, 127, -128}));
}

TEST(Pow, StaysWithinOneUlpAndFollowsTheSpecialCases) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  std::vector<float> x, y;
  for (float a : {0.0f, 1.0f, -1.0f, 2.0f, -2.0f, -2.5f, 0.3f, inf, -inf, nan, 1e-40f, 3e38f})
    for (float b : {0.0f, 1.0f, 2.0f, 3.0f, -1.0f, 0.5f, -0.5f, 2.5f, 100.0f, inf, nan})
      x.push_back(a), y.push_back(b);
  for (int i = 1; i < 300000; ++i) {
    x.push_back(std::exp(static_cast<float>(i % 1777) * 0.05f - 44.0f));
    y.push_back(static_cast<float>(i % 997) * 0.01f - 5.0f);
  }
  const std::vector<float> z = run("pow", x, y);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = ulps(z[i], std::pow(static_cast<double>(x[i]), static_cast<double>(y[i])));
    worst = std::max(worst, error);
    ASSERT_LE(error, 1.0) << x[i] << " ^ " << y[i] << " = " << z[i];
  }
  std::printf("pow      max %.3f ulp\n", worst);
}

TEST(VectorOperations, PropagateNanInMaxAndMin) {
  const float nan = std::nanf("");
  for (const char* name : {"max", "min"}) {
    const std::vector<float> z = run(name, {nan, 1.0f, 2.0f}, {1.0f, nan, 3.0f});
    EXPECT_TRUE(std::isnan(z[0]) && std::isnan(z[1])) << name;
    EXPECT_EQ(z[2], std::string(name) == "max" ? 3.0f : 2.0f);
  }
}

TEST(VectorOperations, ReduceAndScanTheLanes) {
  const auto lanes = static_cast<std::size_t>(library().function<std::int64_t()>("lanes")());
  std::vector<float> x(lanes);
  for (std::size_t i = 0; i < lanes; ++i) x[i] = static_cast<float>((i * 7) % 11);
  const std::vector<float> prefix = run("prefix_sum", x);
  float sum = 0, largest = 0;
  for (std::size_t i = 0; i < lanes; ++i) {
    sum += x[i];
    largest = std::max(largest, x[i]);
    EXPECT_EQ(prefix[i], sum);
  }
  EXPECT_EQ(run("reduce_add", x)[0], sum);
  EXPECT_EQ(run("reduce_max", x)[0], largest);
  x[3] = std::nanf("");
  EXPECT_TRUE(std::isnan(run("reduce_max", x)[0]));
}

/// Every 16-bit and 8-bit value, and numbers at, beside and between those that it can be rounded
/// to.
TEST(VectorOperations, NarrowLoadsAndStoresConvertAsOneValueDoes) {
  const SharedObject built(
      "#include <lathe/cpu.h>\n"
      "using namespace lathe;\n"
      "template <class T> int64_t differences(const float* x, int64_t n) {\n"
      "  int64_t count = 0;\n"
      "  for (int64_t i = 0; i + kLanes <= n; i += kLanes)\n"
      "    for (int64_t left = 0; left <= kLanes; ++left) {\n"
      "      T to[kLanes + 1];\n"
      "      float back[kLanes];\n"
      "      for (T& one : to) one = T(7.0f);\n"
      "      store(to, load(x + i), first_lanes(left));\n"
      "      if (left == kLanes) store(to, load(x + i));\n"
      "      store(back, left == kLanes ? load(to) : load(to, first_lanes(left)));\n"
      "      for (int64_t j = 0; j <= kLanes; ++j) {\n"
      "        const T one = j < left ? T(x[i + j]) : T(7.0f);\n"
      "        count += __builtin_memcmp(&one, to + j, sizeof(T)) != 0;\n"
      "        const float wide = j < left ? static_cast<float>(one) : 0.0f;\n"
      "        if (j < kLanes) count += __builtin_memcmp(&wide, back + j, 4) != 0;\n"
      "      }\n"
      "    }\n"
      "  return count;\n"
      "}\n"
      "extern \"C\" int64_t fp16(const float* x, int64_t n) { return differences<half>(x, n); }\n"
      "extern \"C\" int64_t bf16(const float* x, int64_t n) { return differences<bfloat16>(x, n); }\n"
      "extern \"C\" int64_t e4m3(const float* x, int64_t n) { return differences<fp8e4m3>(x, n); }\n"
      "extern \"C\" int64_t e5m2(const float* x, int64_t n) { return differences<fp8e5m2>(x, n); }\n");
  std::vector<float> x;
  for (std::uint32_t upper = 0; upper < 1U << 16; ++upper)
    for (const std::uint32_t lower : {0U, 1U, 0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U})
      x.push_back(std::bit_cast<float>(upper << 16 | lower));
  using Count = std::int64_t(const float*, std::int64_t);
  for (const char* type : {"fp16", "bf16", "e4m3", "e5m2"})
    EXPECT_EQ(built.function<Count>(type)(x.data(), static_cast<std::int64_t>(x.size())), 0) << type;
}

/// Small whole numbers, whose sums are exact in any order.
TEST(VectorOperations, PairsOfBf16AreMultipliedAlikeWithAndWithoutAnInstructionForIt) {
  const std::string text =
      "#include <lathe/cpu.h>\n"
      "using namespace lathe;\n"
      "const float nan = __builtin_nanf(\"\");\n"
      "extern \"C\" float along(const float* x, const float* y, int64_t n) {\n"
      "  bfloat16 a[80], b[80];\n"
      "  for (int64_t i = 0; i < 80; ++i) a[i] = i < n ? x[i] : nan, b[i] = i < n ? y[i] : nan;\n"
      "  f32v acc[1][1];\n"
      "  dot_tile<1, 1>(a, b, n, 1, 1, acc);\n"
      "  return first_lane(acc[0][0]);\n"
      "}\n"
      "extern \"C\" float across(const float* x, const float* y, int64_t n) {\n"
      "  bfloat16 a[80], b[80 * kLanes];\n"
      "  for (int64_t i = 0; i < 80; ++i) {\n"
      "    a[i] = i < n ? x[i] : nan;\n"
      "    for (int64_t j = 0; j < kLanes; ++j) b[i * kLanes + j] = i < n && j < 3 ? y[i] * (j + 1) : nan;\n"
      "  }\n"
      "  f32v acc[1][1] = {f32v(0.0f)};\n"
      "  gemm_pairs(PairedRowsInPlace<1>(a, 80, 1), MaskedPairedColumns<1>(b, kLanes, 3), cdiv(n, 2), n, "
      "acc);\n"
      "  float sums[kLanes];\n"
      "  store(sums, acc[0][0]);\n"
      "  return sums[1] == 2 * sums[0] && sums[2] == 3 * sums[0] ? sums[0] : nan;\n"
      "}\n";
  std::vector<float> x, y;
  for (int i = 0; i < 80; ++i) {
    x.push_back(static_cast<float>(i * 7 % 19 - 9));
    y.push_back(static_cast<float>(i * 5 % 13 - 6));
  }
  using Product = float(const float*, const float*, std::int64_t);
  for (const char* flags : {"", "-mno-avx512bf16", "-mno-avx512f"}) {
    const SharedObject built(text, flags);
    for (std::int64_t n = 1; n <= 80; ++n) {
      float sum = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) sum += x[i] * y[i];
      EXPECT_EQ(built.function<Product>("along")(x.data(), y.data(), n), sum) << flags << " " << n;
      EXPECT_EQ(built.function<Product>("across")(x.data(), y.data(), n), sum) << flags << " " << n;
    }
  }
}

/// Where the machine's own operations trap or are undefined.
TEST(ExactOperations, TakeTheSmallestNumber) {
  const SharedObject built(
      "#include <lathe/cpu.h>\n"
      "template <class T> bool right(T least, T minus_one) {\n"
      "  return lathe::fmod(least, minus_one) == 0 && lathe::remainder(least, minus_one) == 0 && "
      "lathe::abs(least) == least &&\n"
      "         lathe::fmod(T(-7), T(3)) == -1 && lathe::remainder(T(-7), T(3)) == 2 && lathe::abs(T(-7)) == "
      "7;\n"
      "}\n"
      "extern \"C\" int64_t words(int64_t minus_one) {\n"
      "  return right<int32_t>(INT32_MIN, static_cast<int32_t>(minus_one)) && right<int64_t>(INT64_MIN, "
      "minus_one);\n"
      "}\n");
  EXPECT_EQ(built.function<std::int64_t(std::int64_t)>("words")(-1), 1);
}

TEST(VectorOperations, TransposeBlocksOfAnySize) {
  const int lanes = static_cast<int>(library().function<std::int64_t()>("lanes")());
  for (int rows = 1; rows <= lanes; ++rows) {
    for (int cols = 1; cols <= lanes; ++cols) {
      std::vector<float> x(static_cast<std::size_t>(rows * 33)),
          z(static_cast<std::size_t>(cols * 37), -1.0f);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
      const float how[] = {33, 37, static_cast<float>(rows), static_cast<float>(cols)};
      library().function<Kernel>("f_transpose")(x.data(), how, z.data(), 0);
      for (int j = 0; j < cols; ++j)
        for (int i = 0; i < 37; ++i)
          ASSERT_EQ(z[static_cast<std::size_t>(j * 37 + i)],
                    i < rows ? static_cast<float>(i * 33 + j) : -1.0f);
    }
  }
}

}  // namespace
}  // namespace lathe
