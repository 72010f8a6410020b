#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

template <class F>
OpCase unary(std::string op, Attrs attrs, Draw draw, F f) {
  OpCase result = make_case(std::move(op), {{7, 30}}, std::move(attrs), [f](const auto& in, Summer&) {
    auto out = in[0].data;
    for (auto& x : out) x = f(x);
    return out;
  });
  result.draws = {draw};
  return result;
}

/// [4, 1, 6] against [5, 1]: both stretch.
template <class F>
OpCase binary(std::string op, Draw a, Draw b, F f) {
  OpCase result = make_case(std::move(op), {{4, 1, 6}, {5, 1}}, {}, [f](const auto& in, Summer&) {
    auto out = in[0].data;
    out.clear();
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 5; ++j) {
        for (int k = 0; k < 6; ++k) out.push_back(f(in[0].at(i, 0, k), in[1].at(j, 0)));
      }
    }
    return out;
  });
  result.draws = {a, b};
  return result;
}

template <class T>
T number(double x) {
  return static_cast<T>(x);
}

std::vector<OpCase> activation_cases() {
  const Draw wide{-6, 6};
  return {
      unary("relu", {}, wide, [](auto x) { return std::max(x, decltype(x)(0)); }),
      unary("leaky_relu", attrs({{"slope", 0.1}}), wide,
            [](auto x) { return x > 0 ? x : x * number<decltype(x)>(0.1); }),
      unary("sigmoid", {}, wide, [](auto x) { return 1 / (1 + std::exp(-x)); }),
      unary("tanh", {}, wide, [](auto x) { return 1 - 2 / (std::exp(2 * x) + 1); }),
      unary("gelu", {}, wide,
            [](auto x) {
              using T = decltype(x);
              return x * (1 + std::erf(x * number<T>(std::sqrt(0.5)))) / 2;
            }),
      unary("gelu", attrs({{"approximate", "tanh"}}), wide,
            [](auto x) {
              using T = decltype(x);
              const T inner = number<T>(std::sqrt(2 / M_PI)) * (x + number<T>(0.044715) * x * x * x);
              return x * (1 + std::tanh(inner)) / 2;
            }),
      unary("silu", {}, wide, [](auto x) { return x / (1 + std::exp(-x)); }),
      unary("elu", attrs({{"alpha", 1.3}}), wide,
            [](auto x) { return x > 0 ? x : number<decltype(x)>(1.3) * (std::exp(x) - 1); }),
      unary("softplus", {}, wide, [](auto x) { return std::log(1 + std::exp(x)); }),
      unary("log_sigmoid", {}, wide, [](auto x) { return -std::log(1 + std::exp(-x)); }),
      unary("selu", {}, wide,
            [](auto x) {
              using T = decltype(x);
              const T alpha = number<T>(1.6732632423543772), scale = number<T>(1.0507009873554805);
              return scale * (x > 0 ? x : alpha * (std::exp(x) - 1));
            }),
      unary("softshrink", attrs({{"lambda", 0.3}}), wide,
            [](auto x) {
              using T = decltype(x);
              return x - std::clamp(x, number<T>(-0.3), number<T>(0.3));
            }),
      unary("hardshrink", attrs({{"lambda", 1.3}}), wide,
            [](auto x) {
              using T = decltype(x);
              return x * T(std::abs(x) > number<T>(1.3));
            }),
      unary("mish", {}, wide, [](auto x) { return x * std::tanh(std::log(1 + std::exp(x))); }),
      unary("softsign", {}, wide, [](auto x) { return x / (1 + std::abs(x)); }),
      unary("hardswish", {}, wide,
            [](auto x) {
              using T = decltype(x);
              return x * std::clamp(x / 6 + number<T>(0.5), T(0), T(1));
            }),
      unary("hardsigmoid", {}, wide,
            [](auto x) {
              using T = decltype(x);
              return std::clamp((x + 3) / 6, T(0), T(1));
            }),
      unary("clamp", attrs({{"low", -0.7}}), wide,
            [](auto x) { return std::max(x, number<decltype(x)>(-0.7)); }),
      unary("clamp", attrs({{"low", -0.7}, {"high", 2.1}}), wide,
            [](auto x) {
              using T = decltype(x);
              return std::clamp(x, number<T>(-0.7), number<T>(2.1));
            }),
      unary("hardtanh", {}, wide, [](auto x) { return std::clamp(x, decltype(x)(-1), decltype(x)(1)); }),
  };
}

std::vector<OpCase> math_cases() {
  const Draw wide{-6, 6};
  const Draw positive{0.05, 9};
  return {
      unary("abs", {}, wide, [](auto x) { return x < 0 ? -x : x; }),
      unary("neg", {}, wide, [](auto x) { return -x; }),
      unary("exp", {}, wide, [](auto x) { return std::exp(x); }),
      unary("expm1", {}, wide, [](auto x) { return std::expm1(x); }),
      unary("log", {}, positive, [](auto x) { return std::log(x); }),
      unary("log1p", {}, positive, [](auto x) { return std::log1p(x); }),
      unary("erf", {}, wide, [](auto x) { return std::erf(x); }),
      unary("sin", {}, wide, [](auto x) { return std::sin(x); }),
      unary("cos", {}, wide, [](auto x) { return std::cos(x); }),
      unary("exp2", {}, wide, [](auto x) { return std::exp(x * number<decltype(x)>(M_LN2)); }),
      unary("log2", {}, positive, [](auto x) { return std::log(x) / number<decltype(x)>(M_LN2); }),
      unary("tan", {}, Draw{-1.4, 1.4}, [](auto x) { return std::sin(x) / std::cos(x); }),
      unary("atan", {}, wide, [](auto x) { return 2 * std::atan(x / (1 + std::sqrt(1 + x * x))); }),
      unary("asin", {}, Draw{-1, 1}, [](auto x) { return std::atan2(x, std::sqrt((1 - x) * (1 + x))); }),
      unary("acos", {}, Draw{-1, 1},
            [](auto x) { return 2 * std::atan2(std::sqrt(1 - x), std::sqrt(1 + x)); }),
      unary("sinh", {}, wide,
            [](auto x) {
              const auto up = std::expm1(std::abs(x));
              return std::copysign((up + up / (up + 1)) / 2, x);
            }),
      unary("cosh", {}, wide, [](auto x) { return (std::exp(x) + std::exp(-x)) / 2; }),
      unary("sqrt", {}, positive, [](auto x) { return std::sqrt(x); }),
      unary("rsqrt", {}, positive, [](auto x) { return 1 / std::sqrt(x); }),
      unary("reciprocal", {}, positive, [](auto x) { return 1 / x; }),
      unary("square", {}, wide, [](auto x) { return x * x; }),
      unary("scale", attrs({{"by", 0.1}}), wide, [](auto x) { return x * number<decltype(x)>(0.1); }),
      unary("add_scalar", attrs({{"by", 0.1}}), wide, [](auto x) { return x + number<decltype(x)>(0.1); }),
      unary("pow_scalar", attrs({{"exponent", 2.3}}), positive,
            [](auto x) { return std::exp(number<decltype(x)>(2.3) * std::log(x)); }),
      unary("pow_scalar", attrs({{"exponent", 3}}), wide, [](auto x) { return x * x * x; }),
  };
}

/// Steps: of an exact argument, ties are exact.
std::vector<OpCase> step_cases() {
  const Draw wide{-6, 6};
  return {
      unary("round", {}, wide, [](auto x) { return std::nearbyint(x); }),
      unary("floor", {}, wide, [](auto x) { return std::floor(x); }),
      unary("ceil", {}, wide, [](auto x) { return std::ceil(x); }),
      unary("trunc", {}, wide, [](auto x) { return std::trunc(x); }),
      unary("sign", {}, wide, [](auto x) { return decltype(x)(x > 0) - decltype(x)(x < 0); }),
      unary("exponent", {}, Draw{0.01, 300}, [](auto x) { return std::floor(std::log2(x)); }),
      unary("cast", attrs({{"dtype", "int8"}}), Draw{-200, 200},
            [](auto x) {
              using T = decltype(x);
              return std::clamp(std::trunc(x), T(-128), T(127));
            }),
      unary("cast", attrs({{"dtype", "uint8"}}), Draw{-100, 400},
            [](auto x) {
              using T = decltype(x);
              return std::clamp(std::trunc(x), T(0), T(255));
            }),
      unary("gt", attrs({{"value", 0.5}}), wide, [](auto x) { return decltype(x)(x > 0.5); }),
      unary("logical_not", {}, wide, [](auto x) { return decltype(x)(x == 0); }),
  };
}

template <class F>
OpCase comparison(std::string op, F holds, Draw draw = {-3, 3}) {
  return binary(std::move(op), draw, draw, [holds](auto a, auto b) { return decltype(a)(holds(a, b)); });
}

std::vector<OpCase> comparison_cases() {
  std::vector<OpCase> cases = {
      comparison("lt", [](auto a, auto b) { return a < b; }),
      comparison("le", [](auto a, auto b) { return a <= b; }),
      comparison("gt", [](auto a, auto b) { return a > b; }),
      comparison("ge", [](auto a, auto b) { return a >= b; }),
      comparison(
          "eq", [](auto a, auto b) { return a == b; }, Draw{1, 1}),
      comparison(
          "ne", [](auto a, auto b) { return a != b; }, Draw{1, 1}),
  };
  const Draw number{-3, 3}, mask{.binary = true};
  cases.push_back(
      binary("logical_and", number, mask, [](auto a, auto b) { return decltype(a)(a != 0 && b != 0); }));
  cases.push_back(
      binary("logical_or", number, mask, [](auto a, auto b) { return decltype(a)(a != 0 || b != 0); }));
  return cases;
}

/// Of int8 numbers, whose bits the test takes from the machine's own.
std::vector<OpCase> bit_cases() {
  const Draw byte{.low = -128, .high = 127, .whole = DType::kI8};
  const Draw shift{.low = 0, .high = 7, .whole = DType::kI8};
  const Draw word{.low = -300, .high = 300, .whole = DType::kI32};
  const auto bits = [](auto x) { return static_cast<std::int8_t>(x); };
  const auto as_word = [](auto x) { return static_cast<std::int64_t>(x); };
  std::vector<OpCase> cases = {
      unary("bitwise_and", attrs({{"value", 0x36}}), byte,
            [=](auto x) { return number<decltype(x)>(bits(x) & 0x36); }),
      unary("bitwise_or", attrs({{"value", 15}}), byte,
            [=](auto x) { return number<decltype(x)>(bits(x) | 15); }),
      unary("bitwise_xor", attrs({{"value", -128}}), byte,
            [=](auto x) { return number<decltype(x)>(bits(x) ^ -128); }),
      unary("bitwise_not", {}, byte, [=](auto x) { return number<decltype(x)>(~bits(x)); }),
      unary("shift_left", attrs({{"by", 3}}), byte,
            [=](auto x) { return number<decltype(x)>(bits(bits(x) * 8)); }),
      unary("shift_right", attrs({{"by", 3}}), byte, [](auto x) { return std::floor(x / 8); }),
      binary("bitwise_and", byte, byte,
             [=](auto a, auto b) { return number<decltype(a)>(bits(a) & bits(b)); }),
      binary("bitwise_or", byte, byte,
             [=](auto a, auto b) { return number<decltype(a)>(bits(a) | bits(b)); }),
      binary("bitwise_xor", byte, byte,
             [=](auto a, auto b) { return number<decltype(a)>(bits(a) ^ bits(b)); }),
      binary("shift_left", byte, shift,
             [=](auto a, auto b) { return number<decltype(a)>(bits(bits(a) * (1 << bits(b)))); }),
      binary("shift_right", byte, shift, [](auto a, auto b) { return std::floor(a / std::exp2(b)); }),
      unary(
          "popcount", {}, word,
          [=](auto x) { return number<decltype(x)>(std::popcount(static_cast<std::uint32_t>(as_word(x)))); }),
      binary("wrapping_add", word, word,
             [=](auto a, auto b) {
               return number<decltype(a)>(static_cast<std::int32_t>(as_word(a) + as_word(b)));
             }),
      unary("wrapping_mul", attrs({{"value", 0x40000000}}), word,
            [=](auto x) { return number<decltype(x)>(static_cast<std::int32_t>(as_word(x) * 0x40000000)); }),
      binary("mul_high", word, word,
             [=](auto a, auto b) {
               const auto product = std::uint64_t{static_cast<std::uint32_t>(as_word(a))} *
                                    static_cast<std::uint32_t>(as_word(b));
               return number<decltype(a)>(static_cast<std::int32_t>(product >> 32));
             }),
      binary("floor_divide", byte, Draw{.low = 1, .high = 9, .whole = DType::kI8},
             [](auto a, auto b) { return std::floor(a / b); }),
  };
  return cases;
}

}  // namespace

std::vector<OpCase> elementwise_cases() {
  const Draw any{-3, 3};
  const Draw positive{0.1, 4};
  std::vector<OpCase> cases = activation_cases();
  for (OpCase& op_case : math_cases()) cases.push_back(std::move(op_case));
  for (OpCase& op_case : step_cases()) cases.push_back(std::move(op_case));
  for (OpCase& op_case : comparison_cases()) cases.push_back(std::move(op_case));
  for (OpCase& op_case : bit_cases()) cases.push_back(std::move(op_case));
  cases.push_back(binary("add", any, any, [](auto a, auto b) { return a + b; }));
  cases.push_back(binary("sub", any, any, [](auto a, auto b) { return a - b; }));
  cases.push_back(binary("mul", any, any, [](auto a, auto b) { return a * b; }));
  cases.push_back(binary("div", any, positive, [](auto a, auto b) { return a * (1 / b); }));
  cases.push_back(binary("max", any, any, [](auto a, auto b) { return std::max(a, b); }));
  cases.push_back(binary("min", any, any, [](auto a, auto b) { return std::min(a, b); }));
  cases.push_back(binary("prelu", any, any, [](auto a, auto b) { return a > 0 ? a : a * b; }));
  cases.push_back(binary("pow", positive, any, [](auto a, auto b) { return std::exp(b * std::log(a)); }));
  cases.push_back(binary("fmod", any, positive, [](auto a, auto b) { return a - std::trunc(a / b) * b; }));
  cases.push_back(
      binary("remainder", any, Draw{-4, -0.1}, [](auto a, auto b) { return a - std::floor(a / b) * b; }));
  cases.push_back(binary("logaddexp", any, any, [](auto a, auto b) {
    return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
  }));
  cases.push_back(binary("atan2", any, any, [](auto a, auto b) {
    using T = decltype(a);
    const T acute = std::atan(a / b);
    return b > 0 ? acute : acute + std::copysign(number<T>(M_PI), a);
  }));
  cases.push_back(make_case("clamp", {{4, 6}, {6}, {4, 1}}, {}, [](const auto& in, Summer&) {
    auto out = in[0].data;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = std::min(std::max(out[i], in[1].data[i % 6]), in[2].data[i / 6]);
    return out;
  }));
  cases.back().draws = {any, Draw{-3, -0.5}, Draw{0.5, 3}};
  cases.push_back(make_case("clamp", {{4, 6}, {4, 1}}, attrs({{"high", 1.5}}), [](const auto& in, Summer&) {
    auto out = in[0].data;
    using T = std::decay_t<decltype(out[0])>;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = std::min(std::max(out[i], in[1].data[i / 6]), T(1.5));
    return out;
  }));

  cases.push_back(make_case("cast", {{9}}, attrs({{"dtype", "fp64"}}),
                            [](const auto& in, Summer&) { return in[0].data; }));
  cases.push_back(make_case("where", {{3, 4}, {3, 4}, {4}}, {}, [](const auto& in, Summer&) {
    auto out = in[1].data;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = in[0].data[i] != 0 ? out[i] : in[2].data[i % 4];
    return out;
  }));
  cases.back().draws = {Draw{.binary = true}, any};
  cases.push_back(make_case("bias_add", {{3, 4}, {4}}, {}, [](const auto& in, Summer&) {
    auto out = in[0].data;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += in[1].data[i % 4];
    return out;
  }));
  cases.push_back(make_case("bias_add", {{2, 3, 4}, {3}}, attrs({{"axis", 1}}), [](const auto& in, Summer&) {
    auto out = in[0].data;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += in[1].data[i / 4 % 3];
    return out;
  }));
  cases.push_back(make_case("batch_norm", {{2, 3, 5}, {3}, {3}, {3}, {3}}, attrs({{"eps", 1e-3}}),
                            [](const auto& in, Summer&) {
                              auto out = in[0].data;
                              using T = std::decay_t<decltype(out[0])>;
                              for (std::size_t i = 0; i < out.size(); ++i) {
                                const std::size_t c = i / 5 % 3;
                                const T scale = in[1].data[c] / std::sqrt(in[4].data[c] + T(1e-3));
                                const T shift = in[2].data[c] - in[3].data[c] * scale;
                                out[i] = out[i] * scale + shift;
                              }
                              return out;
                            }));
  cases.back().draws = {any, any, any, any, positive};
  return cases;
}

}  // namespace lathe
