#include "task/ops/support/bounds.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>

#include "base/random.h"
#include "task/ops/support/gemm.h"
#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

OpCase matmul_case(std::int64_t m, std::int64_t n, std::int64_t k) {
  OpCase result;
  result.op = "matmul";
  result.in = {{m, k}, {k, n}};
  return result;
}

std::vector<Value> scaled(std::vector<Value> values, double factor) {
  for (Value& value : values) {
    for (double& x : value.data) x = static_cast<double>(static_cast<float>(x * factor));
  }
  return values;
}

TEST(ContractionBound, IsOneRoundingATermOfTheAbsoluteProduct) {
  Rng rng(Seed::from_number(2));
  const OpCase op_case = matmul_case(5, 6, 300);
  const std::vector<Value> in = draw_inputs(op_case, rng);
  const Value out = evaluate(op_case, in, Numerics{});
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 6; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 300; ++k) sum += std::fabs(in[0].data[i * 300 + k] * in[1].data[k * 6 + j]);
      const double want = 300 * 0x1p-24 * sum;
      EXPECT_NEAR(out.err[i * 6 + j], want, 1e-3 * want);
      EXPECT_GE(out.err[i * 6 + j], want);
    }
  }
}

/// The precision probe: a permutation picks one element, so tf32's rounding no longer hides among K
/// terms.
TEST(ContractionBound, CountsOnlyNonZeroTermsForTheProbe) {
  Rng rng(Seed::from_number(3));
  const OpCase op_case = matmul_case(16, 64, 64);
  std::vector<Value> in = draw_inputs(op_case, rng);
  std::fill(in[1].data.begin(), in[1].data.end(), 0.0);
  for (std::size_t k = 0; k < 64; ++k) in[1].data[k * 64 + (k * 7 + 3) % 64] = 1;
  const Value dense = evaluate(op_case, in, Numerics{});
  const Value sparse = evaluate(op_case, in, Numerics{.sparse_sums = true});
  double seen_as_wrong = 0;
  for (std::size_t i = 0; i < sparse.err.size(); ++i) {
    EXPECT_NEAR(sparse.err[i], 5 * 0x1p-24 * std::fabs(sparse.data[i]), 1e-3 * sparse.err[i]);
    EXPECT_NEAR(dense.err[i], 64.0 / 5 * sparse.err[i], 1e-2 * dense.err[i]);
    const double tf32 = std::ldexp(std::nearbyint(std::ldexp(sparse.data[i], 10)), -10);
    seen_as_wrong += std::fabs(tf32 - sparse.data[i]) > sparse.err[i];
  }
  EXPECT_GT(seen_as_wrong, 0.9 * static_cast<double>(sparse.err.size()));
}

/// The bound is computed in scaled fp32; extreme inputs must neither overflow nor vanish in it.
TEST(ContractionBound, SurvivesExtremeScales) {
  Rng rng(Seed::from_number(4));
  const OpCase op_case = matmul_case(3, 4, 50);
  const std::vector<Value> in = draw_inputs(op_case, rng);
  const Value unit = evaluate(op_case, in, Numerics{});
  const std::vector<Value> large = scaled(in, 0x1p100);
  const Value huge = evaluate(op_case, large, Numerics{});
  const Value tiny = evaluate(op_case, scaled(in, 0x1p-100), Numerics{.underflow = 0x1p-149});
  const Value flushed = evaluate(op_case, scaled(in, 0x1p-100), Numerics{});
  for (std::size_t i = 0; i < unit.err.size(); ++i) {
    EXPECT_NEAR(huge.err[i] * 0x1p-200, unit.err[i], 1e-3 * unit.err[i]);
    EXPECT_GE(tiny.err[i], 50 * 0x1p-149) << "products underflow in fp32";
    EXPECT_LE(tiny.err[i], 101 * 0x1p-149);
    EXPECT_GE(flushed.err[i], 50 * 0x1p-126) << "to zero, where denormals need not be kept";
    EXPECT_LE(flushed.err[i], 51 * 0x1p-126);
  }
}

TEST(ContractionBound, AddsWhatTheOperandsCarry) {
  Value a{{1, 2}, {3, 4}, {0.5, 0}};
  Value b{{2, 1}, {10, 20}, {0, 0.25}};
  OpCase op_case = matmul_case(1, 1, 2);
  const Value out = evaluate(op_case, {a, b}, Numerics{.unit_roundoff = 0});
  EXPECT_NEAR(out.err[0], 0.5 * 10 + 4 * 0.25, 1e-5);
}

/// F(4, 3): four outputs from six inputs, in fp32.
std::array<float, 4> winograd_tile(std::span<const std::array<float, 6>> inputs,
                                   std::span<const std::array<float, 3>> weights) {
  std::array<float, 6> m{};
  for (std::size_t c = 0; c < inputs.size(); ++c) {
    const auto& [d0, d1, d2, d3, d4, d5] = inputs[c];
    const auto& [g0, g1, g2] = weights[c];
    const std::array<float, 6> d = {4 * d0 - 5 * d2 + d4,      -4 * d1 - 4 * d2 + d3 + d4,
                                    4 * d1 - 4 * d2 - d3 + d4, -2 * d1 - d2 + 2 * d3 + d4,
                                    2 * d1 - d2 - 2 * d3 + d4, 4 * d1 - 5 * d3 + d5};
    const std::array<float, 6> g = {g0 / 4,
                                    -(g0 + g1 + g2) / 6,
                                    -(g0 - g1 + g2) / 6,
                                    g0 / 24 + g1 / 12 + g2 / 6,
                                    g0 / 24 - g1 / 12 + g2 / 6,
                                    g2};
    for (std::size_t i = 0; i < 6; ++i) m[i] += d[i] * g[i];
  }
  return {m[0] + m[1] + m[2] + m[3] + m[4], m[1] - m[2] + 2 * m[3] - 2 * m[4],
          m[1] + m[2] + 4 * m[3] + 4 * m[4], m[1] - m[2] + 8 * m[3] - 8 * m[4] + m[5]};
}

/// Of inputs of unlike magnitudes, a tile's small outputs have the roundings of its large ones.
TEST(ConvolutionBound, HasRoomForAlgorithmsThatComputeWholeTiles) {
  for (const std::size_t channels : {1, 3, 64}) {
    Rng rng(Seed::from_number(channels));
    constexpr std::size_t kTiles = 50;
    OpCase op_case;
    op_case.op = "conv1d";
    op_case.in = {{1, static_cast<std::int64_t>(channels), 4 * kTiles + 2},
                  {1, static_cast<std::int64_t>(channels), 3}};
    std::vector<Value> in = draw_inputs(op_case, rng);
    for (double& x : in[0].data) x = static_cast<float>(rng.chance(1.0 / 16) ? 64 * x : x / 64);
    for (double& x : in[1].data) x = static_cast<float>(x);
    const Value out = evaluate(op_case, in, Numerics{});
    for (std::size_t tile = 0; tile < kTiles; ++tile) {
      std::vector<std::array<float, 6>> inputs(channels);
      std::vector<std::array<float, 3>> weights(channels);
      for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t i = 0; i < 6; ++i)
          inputs[c][i] = static_cast<float>(in[0].data[c * (4 * kTiles + 2) + 4 * tile + i]);
        for (std::size_t i = 0; i < 3; ++i) weights[c][i] = static_cast<float>(in[1].data[c * 3 + i]);
      }
      const auto got = winograd_tile(inputs, weights);
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_NEAR(double{got[i]}, out.data[4 * tile + i], out.err[4 * tile + i]) << channels << ' ' << tile;
    }
  }
}

TEST(ConvolutionBound, HasNoneForTheirsWhereStridesLeaveNoTiles) {
  OpCase op_case;
  op_case.op = "conv1d";
  op_case.in = {{1, 1, 9}, {1, 1, 3}};
  std::vector<Value> in = {Value{{1, 1, 9}, std::vector<double>(9), {}}, Value{{1, 1, 3}, {1, 1, 1}, {}}};
  in[0].data[4] = 1;
  const Value tiled = evaluate(op_case, in, Numerics{});
  EXPECT_EQ(tiled.data[6], 0);
  EXPECT_GT(tiled.err[6], 100 * 0x1p-24);
  EXPECT_LT(tiled.err[6], 0x1p-13) << "far below what TF32 loses at its neighbours";
  op_case.attrs.set("stride", std::vector<std::int64_t>{2});
  const Value strided = evaluate(op_case, in, Numerics{});
  EXPECT_LT(strided.err[3], 0x1p-24);
}

TEST(SumFactor, CountsEveryTermUntilASumIsToBeSplit) {
  const Numerics numerics;
  EXPECT_EQ(ops::sum_factor(numerics, 0), 0);
  EXPECT_EQ(ops::sum_factor(numerics, 1), 5);
  EXPECT_EQ(ops::sum_factor(numerics, 1000), 1000);
  EXPECT_EQ(ops::sum_factor(numerics, 4096), 4096);
  EXPECT_EQ(ops::sum_factor(numerics, 100000), 4096);
  EXPECT_EQ(ops::sum_factor(numerics, 1e6), 5000);

  EXPECT_EQ(ops::products_factor(numerics, 0), 0) << "nothing is summed, so zero is exact";
  EXPECT_EQ(ops::products_factor(numerics, 1), 12);
  EXPECT_EQ(ops::products_factor(numerics, 1000), 1000);
}

/// Rounding 1.0001 into a sum near 1000 loses nearly half a unit in the last place every time.
TEST(SumBound, AllowsWhatARunningSumOfNearEqualTermsLoses) {
  OpCase op_case;
  op_case.op = "sum";
  op_case.in = {{4096}};
  const float term = 1 + 0x1.fp-15f;
  float sum = 0;
  for (int i = 0; i < 4096; ++i) sum += term;
  const Value out =
      evaluate(op_case, {Value{{4096}, std::vector<double>(4096, double{term}), {}}}, Numerics{});
  const double error = std::fabs(static_cast<double>(sum) - out.data[0]);
  EXPECT_LE(error, out.err[0]);
  EXPECT_GT(error, 5 * std::sqrt(4096.0) * 0x1p-24 * out.data[0]) << "more than a root's";
}

TEST(ElementwiseBound, WholeNumbersThatTheFormatHoldsAreNotRounded) {
  const auto error = [](const char* op, double a, double b) {
    const OpCase op_case{.op = op, .in = {{1}, {1}}};
    return evaluate(op_case, {{{1}, {a}, {}}, {{1}, {b}, {}}}, Numerics{}).err[0];
  };
  for (const char* op : {"add", "sub", "mul"}) {
    EXPECT_EQ(error(op, 300, 300), 0) << op;
    EXPECT_GT(error(op, 300.5, 299.5), 0) << op;
  }
  EXPECT_GT(error("mul", 5000, 5000), 0);
  EXPECT_GT(error("sub", 0x1p30, 0x1p30), 0) << "of which kernels may have lost something";
  EXPECT_GT(error("div", 300, 300), 0);
}

TEST(ElementwiseBound, AScaleByAPowerOfTwoIsNotRounded) {
  const auto error = [](double by, double x, double e) {
    OpCase op_case{.op = "scale", .in = {{1}}};
    op_case.attrs.set("by", by);
    return evaluate(op_case, {{{1}, {x}, {e}}}, Numerics{}).err[0];
  };
  for (const double by : {0x1p-7, -0.5, 1.0, 64.0}) {
    EXPECT_LE(error(by, 1.1, 0), 0x1p-126) << "but for what is flushed, by " << by;
    EXPECT_DOUBLE_EQ(error(by, 1.1, 0x1p-20), 0x1p-20 * std::fabs(by)) << by;
  }
  for (const double by : {0.3, -0.75}) EXPECT_GT(error(by, 1.1, 0), 0x1p-26) << by;
}

/// A kernel of fp64 may lose as much as a running sum of 4096 terms does: the reference of a longer
/// one loses less.
TEST(SumBound, TheSumItselfLosesLessThanAKernelMay) {
  constexpr std::int64_t kTerms = 100000;
  const Value base{{1}, {0}, {}}, terms{{kTerms}, std::vector<double>(kTerms, 0.1), {}};
  const Value places{{kTerms}, std::vector<double>(kTerms, 0), {}}, offsets{{2}, {0, kTerms}, {}};
  const std::vector<Draw> index = {{}, {.index_limit = kTerms + 1}, {}};
  const OpCase sum{.op = "sum", .in = {{kTerms}}},
      segments{.op = "segment_sum", .in = {{kTerms}, {2}}, .draws = index},
      scattered{.op = "scatter_add", .in = {{1}, {kTerms}, {kTerms}}, .draws = index};
  const double want = static_cast<double>(0.1L * kTerms + (static_cast<long double>(0.1) - 0.1L) * kTerms);
  for (const auto& [op_case, in] :
       {std::pair{sum, std::vector{terms}}, {segments, {terms, offsets}}, {scattered, {base, places, terms}}})
    EXPECT_NEAR(evaluate(op_case, in, Numerics{.unit_roundoff = 0x1p-53}).data[0], want, 64 * 0x1p-53 * want)
        << op_case.op;
}

/// The common bound of rows' losses has room for what a part of their classes is off by, since a
/// mean hides errors of either sign.
TEST(SumBound, OfEvenTermsHasRoomForOneRunningSum) {
  constexpr std::size_t kTerms = 4096;
  Rng random(Seed::from_number(1));
  std::vector<double> terms(kTerms);
  float running = 0;
  for (double& term : terms) running += static_cast<float>(term = static_cast<float>(9 + random.uniform()));
  OpCase op_case;
  op_case.op = "sum";
  op_case.in = {{static_cast<std::int64_t>(kTerms)}};
  const auto bound = [&](bool even) {
    const Value out = evaluate(op_case, {Value{{static_cast<std::int64_t>(kTerms)}, terms, {}}},
                               Numerics{.even_terms = even});
    EXPECT_LT(std::fabs(running - out.data[0]), 0.3 * out.err[0]);
    return out.err[0] / out.data[0];
  };
  EXPECT_LT(bound(true), 200 * 0x1p-24);
  EXPECT_GT(bound(false), 4000 * 0x1p-24);
  for (std::size_t i = 0; i < kTerms; ++i)
    if (i % 4 < 2) terms[i] = 9.1F;
  running = 0;
  for (const double term : terms) running += static_cast<float>(term);
  EXPECT_GT(bound(true), 4000 * 0x1p-24) << "equal terms have equal roundings";
}

/// Sixteen running sums of 2^22 random terms stay within the bound of even terms by far, and the
/// mean of half of them does not. The common bound would have had room for that from 2^23 on.
TEST(SumBound, OfManyEvenTermsHasRoomForRunningSumsButNotForASample) {
  constexpr std::size_t kTerms = std::size_t{1} << 22;
  Rng random(Seed::from_number(1));
  std::vector<double> terms(kTerms);
  std::array<float, 16> lanes{};
  double half = 0;
  for (std::size_t i = 0; i < kTerms; ++i) {
    const auto term = static_cast<float>(-std::log(1 - random.uniform()));
    terms[i] = term;
    lanes[i % 16] += term;
    if (i % 128 < 64) half += 2 * term;
  }
  float running = 0;
  for (const float lane : lanes) running += lane;
  OpCase op_case;
  op_case.op = "sum";
  op_case.in = {{static_cast<std::int64_t>(kTerms)}};
  const Value out = evaluate(op_case, {Value{{static_cast<std::int64_t>(kTerms)}, std::move(terms), {}}},
                             Numerics{.even_terms = true});
  EXPECT_LT(std::fabs(running - out.data[0]), 0.3 * out.err[0]);
  EXPECT_GT(std::fabs(half - out.data[0]), 3 * out.err[0]);
}

/// A logarithm that is carried on step by step stays within the bound of even terms, and one that
/// waits until the sum has grown by a thousandth does not.
TEST(SumBound, OfManyEvenTermsLeavesNoLogarithmOut) {
  constexpr std::size_t kTerms = 16384;
  Rng random(Seed::from_number(1));
  std::vector<double> x(kTerms);
  for (double& value : x) value = static_cast<float>(random.normal());
  OpCase op_case;
  op_case.op = "logcumsumexp";
  op_case.in = {{static_cast<std::int64_t>(kTerms)}};
  const Value out =
      evaluate(op_case, {Value{{static_cast<std::int64_t>(kTerms)}, x, {}}}, Numerics{.even_terms = true});
  auto carried = static_cast<float>(x[0]);
  double last = x[0];
  std::size_t waited = 0;
  for (std::size_t i = 1; i < kTerms; ++i) {
    const auto value = static_cast<float>(x[i]);
    carried = std::max(carried, value) + std::log1p(std::exp(-std::fabs(carried - value)));
    EXPECT_LT(std::fabs(carried - out.data[i]), 0.7 * out.err[i]) << i;
    if (i < 1024 || out.data[i] > last + 1e-3) last = out.data[i];
    waited += std::fabs(last - out.data[i]) > out.err[i] ? 1 : 0;
  }
  EXPECT_GT(waited, kTerms / 2);
}

/// An accumulator that starts from the bias rounds it with every term.
TEST(AdditionBound, KnowsThatASumMayStartFromTheOtherOperand) {
  const double large = 1000;
  const Value sum = evaluate(matmul_case(1, 1, 300),
                             {Value{{1, 300}, std::vector<double>(300, 1e-3), {}},
                              Value{{300, 1}, std::vector<double>(300, 1e-3), {}}},
                             Numerics{});
  EXPECT_EQ(sum.terms, 300);
  for (const char* op : {"add", "sub", "bias_add"}) {
    OpCase op_case;
    op_case.op = op;
    op_case.in = {{1, 1}, {1}};
    const Value other{{1}, {large}, {}};
    const Value out = evaluate(op_case, {sum, other}, Numerics{});
    EXPECT_NEAR(out.err[0], 301 * 0x1p-24 * large, 1e-3 * out.err[0]) << op;
    EXPECT_EQ(out.terms, 300) << op << ": a residual may take part, too";
    const Value plain = evaluate(op_case, {Value{{1, 1}, sum.data, sum.err}, other}, Numerics{});
    EXPECT_LT(plain.err[0], 2 * 0x1p-24 * large) << op;
  }
}

TEST(AdditionBound, CountsTheProbesTermsForTheBiasToo) {
  std::vector<double> one_hot(300);
  one_hot[7] = 1;
  const Value sum =
      evaluate(matmul_case(1, 1, 300),
               {Value{{1, 300}, std::vector<double>(300, 1e-3), {}}, Value{{300, 1}, one_hot, {}}},
               Numerics{.sparse_sums = true});
  EXPECT_EQ(sum.terms, 1);
}

/// What weighs nothing beside the largest may be it, if its own error is that large.
TEST(ExponentialsBound, HoldsWhereErrorsChangeWhichIsTheLargest) {
  const std::vector<double> x{100, 0, 70}, error{0.0625, 180, 1};
  for (const char* op : {"logsumexp", "softmax", "log_softmax", "logcumsumexp"}) {
    OpCase op_case;
    op_case.op = op;
    op_case.in = {{1, 3}};
    const auto of = [&](const std::vector<double>& values, std::vector<double> errors) {
      return evaluate(op_case, {Value{{1, 3}, values, std::move(errors)}}, Numerics{});
    };
    const Value bounded = of(x, error);
    for (int corner = 0; corner < 8; ++corner) {
      std::vector<double> moved = x;
      for (std::size_t i = 0; i < x.size(); ++i) moved[i] += (corner >> i & 1 ? 1 : -1) * error[i];
      const Value there = of(moved, {});
      for (std::size_t i = 0; i < there.data.size(); ++i)
        EXPECT_LE(std::fabs(there.data[i] - bounded.data[i]), bounded.err[i]) << op << " corner " << corner;
    }
  }
}

/// Two passes in fp32 over data whose deviations are the mean's own rounding error.
TEST(VarianceBound, HoldsOnNearlyConstantData) {
  OpCase op_case;
  op_case.op = "var";
  op_case.in = {{1000}};
  std::vector<double> x(1000, 1 + 0x1.fp-15);
  std::vector<double> carried(1000);
  for (std::size_t i = 0; i < x.size(); ++i) carried[i] = i % 2 == 0 ? 1e-3 : 0;
  const Value out = evaluate(op_case, {Value{{1000}, x, carried}}, Numerics{});
  float sum = 0;
  float squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<float>(x[i] + carried[i]);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float d = static_cast<float>(x[i] + carried[i]) - sum / 1000;
    squares += d * d;
  }
  EXPECT_LE(squares / 1000, out.err[0]);
  EXPECT_GT(squares / 1000, 0);
}

TEST(Gemm, EqualsTheDefinitionAtEveryRemainder) {
  Rng rng(Seed::from_number(5));
  for (int trial = 0; trial < 60; ++trial) {
    const auto m = static_cast<std::size_t>(rng.between(1, 210));
    const auto n = static_cast<std::size_t>(rng.between(1, 40));
    const auto k = static_cast<std::size_t>(rng.between(1, 600));
    std::vector<double> a(m * k), b(k * n), c(m * (n + 3), -1);
    for (double& x : a) x = static_cast<double>(rng.between(-8, 8));
    for (double& x : b) x = static_cast<double>(rng.between(-8, 8));
    ops::gemm(m, n, k, MatrixView<double>{a.data(), k, 1}, MatrixView<double>{b.data(), 1, k}, c.data(),
              n + 3);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n + 3; ++j) {
        double want = j < n ? 0 : -1;
        for (std::size_t p = 0; j < n && p < k; ++p) want += a[i * k + p] * b[j * k + p];
        ASSERT_EQ(c[i * (n + 3) + j], want);
      }
    }
  }
}

struct ElementwiseCase {
  const char* op;
  Draw draw;
  std::uint64_t seed;
  Attrs attrs = {};
};

/// The largest error of a kernel in fp32 over its bound, on 200,000 values.
template <class Kernel>
double largest_share_of_bound(const ElementwiseCase& of, const Kernel& kernel) {
  OpCase op_case;
  op_case.op = of.op;
  op_case.in = {{200000}};
  op_case.attrs = of.attrs;
  op_case.draws = {of.draw};
  Rng rng(Seed::from_number(of.seed));
  const std::vector<Value> in = draw_inputs(op_case, rng);
  const Value out = evaluate(op_case, in, Numerics{});
  double share = 0;
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    const double y = double{kernel(static_cast<float>(in[0].data[i]))};
    share = std::max(share, std::fabs(y - out.data[i]) / out.err[i]);
  }
  return share;
}

/// log2(e) in fp32 has an error of its own, so that the product's one rounding is not all.
TEST(ExponentialBound, AllowsPowersOfTwoOfAScaledArgument) {
  const auto exponential = [](float x) { return std::exp2(x * 1.44269504f); };
  const auto largest_share = [](const char* op, const auto& kernel, Attrs given = {}) {
    return largest_share_of_bound({op, {-80, 80}, 6, std::move(given)}, kernel);
  };
  const double share = largest_share("exp", exponential);
  EXPECT_LE(share, 1);
  EXPECT_GT(share, 0.8) << "no looser than it must be";
  EXPECT_LE(largest_share("sigmoid", [&](float x) { return 1 / (1 + exponential(-x)); }), 1);
  EXPECT_LE(largest_share("silu", [&](float x) { return x / (1 + exponential(-x)); }), 1);
  EXPECT_LE(largest_share("sigmoid", [](float x) { return 0.5f + 0.5f * std::tanh(0.5f * x); }), 1);
  EXPECT_LE(largest_share("silu", [](float x) { return 0.5f * x * (1 + std::tanh(0.5f * x)); }), 1);
  EXPECT_LE(largest_share("elu", [&](float x) { return x > 0 ? x : exponential(x) - 1; }), 1);
  EXPECT_LE(largest_share("softplus", [&](float x) { return std::log1p(exponential(x)); }), 1);
  EXPECT_LE(largest_share("mish", [&](float x) { return x * std::tanh(std::log1p(exponential(x))); }), 1);
  EXPECT_LE(largest_share("tanh", [&](float x) { return 1 - 2 / (1 + exponential(2 * x)); }), 1);
  const auto by_sigmoid = [&](float x) {
    return x / (1 + exponential(-1.59576912f * (x + 0.044715f * x * x * x)));
  };
  EXPECT_LE(largest_share("gelu", by_sigmoid, attrs({{"approximate", "tanh"}})), 1);
}

TEST(ElementwiseBound, AllowsOtherUsualFormulas) {
  const auto largest_share = [](const char* op, double low, double high, const auto& kernel) {
    return largest_share_of_bound({op, {low, high}, 7}, kernel);
  };
  const auto rational_erf = [](float x) {
    const float a = std::fabs(x), t = 1 / (1 + 0.3275911f * a);
    const float sum = (((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t;
    return std::copysign(1 - (sum + 0.254829592f) * t * std::exp(-a * a), x);
  };
  EXPECT_LE(largest_share("erf", -5, 5, rational_erf), 1);
  EXPECT_LE(
      largest_share("gelu", -8, 8, [&](float x) { return 0.5f * x * (1 + rational_erf(x * 0.70710678f)); }),
      1);
  EXPECT_LE(largest_share("elu", -8, 8,
                          [](float x) { return std::max(x, 0.0f) + std::exp(std::min(x, 0.0f)) - 1; }),
            1);
  const auto refined = [](float x) {  // an estimate of 12 bits, then Newton's step
    const float estimate =
        std::ldexp(std::round(std::ldexp(1 / x, 12 - std::ilogb(1 / x))), std::ilogb(1 / x) - 12);
    return estimate * (2 - x * estimate);
  };
  EXPECT_LE(largest_share("reciprocal", 0.5, 90, refined), 1);
  EXPECT_LE(largest_share("sqrt", 0.5, 90, [](float x) { return x * (1 / std::sqrt(x)); }), 1);
}

/// Ways of computing in fp32 that people use, and those that cancel.
TEST(ElementwiseBound, TellsUsualFormulasFromThoseThatCancel) {
  const auto largest_share = [](const char* op, double low, double high, const auto& kernel) {
    return largest_share_of_bound({op, {low, high}, 8}, kernel);
  };
  EXPECT_LE(largest_share("exp2", -80, 80, [](float x) { return std::exp(x * 0.693147182f); }), 1);
  EXPECT_LE(largest_share("log2", 0.01, 90, [](float x) { return std::log(x) * 1.44269504f; }), 1);
  EXPECT_LE(largest_share("tan", -300, 300, [](float x) { return std::sin(x) / std::cos(x); }), 1);
  EXPECT_GT(largest_share("tan", -3, 3, [](float x) { return std::tan(x) * (1 + 0x1p-17f); }), 1);
  EXPECT_LE(largest_share("atan", -90, 90, [](float x) { return std::atan2(x, 1.0f); }), 1);
  EXPECT_LE(largest_share("atan", 1, 90, [](float x) { return 1.57079637f - std::atan(1 / x); }), 1);
  const auto leg = [](float x) { return std::sqrt((1 - x) * (1 + x)); };
  EXPECT_LE(largest_share("asin", -1, 1, [&](float x) { return std::atan2(x, leg(x)); }), 1);
  EXPECT_LE(largest_share("acos", -1, 1, [&](float x) { return std::atan2(leg(x), x); }), 1);
  EXPECT_LE(largest_share("acos", 0, 1, [](float x) { return 2 * std::asin(std::sqrt((1 - x) / 2)); }), 1);
  EXPECT_GT(largest_share("acos", 0.99, 1, [](float x) { return 1.57079637f - std::asin(x); }), 1);
  EXPECT_LE(largest_share("asin", 0.99, 1, [](float x) { return std::atan(x / std::sqrt(1 - x * x)); }), 1);
  EXPECT_GT(largest_share("acos", 0.99, 1, [](float x) { return std::atan2(std::sqrt(1 - x * x), x); }), 1);
  const auto sinh_by_exps = [](float x) { return (std::exp(x) - std::exp(-x)) / 2; };
  EXPECT_LE(largest_share("sinh", 2, 80, sinh_by_exps), 1);
  EXPECT_GT(largest_share("sinh", -0.01, 0.01, sinh_by_exps), 1);
  EXPECT_LE(largest_share("cosh", -80, 80, [](float x) { return (std::exp(x) + std::exp(-x)) / 2; }), 1);
  const auto power = [](float x) { return std::exp2(x * 1.44269504f); };
  EXPECT_LE(largest_share("cosh", -80, 80, [&](float x) { return (power(x) + power(-x)) / 2; }), 1);
  EXPECT_LE(largest_share("log_sigmoid", -80, 80,
                          [&](float x) { return std::min(x, 0.0f) - std::log1p(power(-std::fabs(x))); }),
            1);
  EXPECT_LE(largest_share("selu", -8, 8,
                          [](float x) {
                            const float below = 1.67326319f * (std::exp(std::min(x, 0.0f)) - 1);
                            return 1.05070102f * (std::max(x, 0.0f) + below);
                          }),
            1);
  EXPECT_GT(largest_share("selu", -8, 8, [](float x) { return x > 0 ? x : 1.75809932f * std::expm1(x); }), 1);
}

TEST(TangentBound, IsInfiniteAcrossAPoleAlone) {
  OpCase op_case;
  op_case.op = "tan";
  op_case.in = {{1}};
  EXPECT_TRUE(std::isinf(evaluate(op_case, {Value{{1}, {1.5707}, {1e-3}}}, Numerics{}).err[0]));
  EXPECT_LT(evaluate(op_case, {Value{{1}, {1.5}, {1e-3}}}, Numerics{}).err[0], 0.25);
  EXPECT_TRUE(std::isinf(evaluate(op_case, {Value{{1}, {1.570796326794}, {}}}, Numerics{}).err[0]));
}

TEST(OneSidedFunctions, StayFiniteOrSayInfinityAtTheirEdge) {
  OpCase op_case;
  op_case.op = "sqrt";
  op_case.in = {{1}};
  EXPECT_DOUBLE_EQ(evaluate(op_case, {Value{{1}, {0}, {1e-8}}}, Numerics{.unit_roundoff = 0}).err[0], 1e-4);
  op_case.op = "reciprocal";
  EXPECT_TRUE(std::isinf(evaluate(op_case, {Value{{1}, {1e-9}, {1e-8}}}, Numerics{}).err[0]));
  op_case.op = "relu";
  EXPECT_DOUBLE_EQ(evaluate(op_case, {Value{{1}, {-1}, {1e-8}}}, Numerics{}).err[0], 1e-8);
}

TEST(Gather, AnIndexOutsideTheAxisIsNotANumber) {
  OpCase op_case;
  op_case.op = "gather";
  op_case.in = {{2, 1}, {3}};
  op_case.draws = {Draw{}, Draw{.index_limit = 2}};
  const Value out = evaluate(op_case, {Value{{2, 1}, {5, 6}, {}}, Value{{3}, {1, 2, -1}, {}}}, Numerics{});
  EXPECT_EQ(out.data[0], 6);
  EXPECT_TRUE(std::isnan(out.data[1]));
  EXPECT_TRUE(std::isnan(out.data[2]));
}

OpCase scattered(std::int64_t items) {
  OpCase op_case;
  op_case.op = "scatter_add";
  op_case.in = {{3}, {items}, {items}};
  op_case.draws = {Draw{}, Draw{.index_limit = 3}, Draw{}};
  return op_case;
}

TEST(ScatterAdd, WhatNothingIsAddedToIsExactAndOthersHaveTheBoundOfTheirSums) {
  const std::vector<Value> in = {Value{{3}, {1, -2, 4}, {}}, Value{{3}, {2, 0, 2}, {}},
                                 Value{{3}, {8, 16, -32}, {}}};
  const Value out = evaluate(scattered(3), in, Numerics{});
  EXPECT_EQ(out.data, (std::vector<double>{17, -2, -20}));
  EXPECT_EQ(out.err[1], 0);
  EXPECT_EQ(out.err[0], ops::sum_error(Numerics{}, 2, 1 + 16));
  EXPECT_EQ(out.err[2], ops::sum_error(Numerics{}, 3, 4 + 8 + 32));
}

TEST(ScatterAdd, AnIndexOutsideTheAxisLeavesNothingKnown) {
  for (const double outside : {-1.0, 3.0}) {
    const std::vector<Value> in = {Value{{3}, {1, 2, 4}, {}}, Value{{2}, {1, outside}, {}},
                                   Value{{2}, {8, 16}, {}}};
    for (const double y : evaluate(scattered(2), in, Numerics{}).data) EXPECT_TRUE(std::isnan(y)) << outside;
  }
}

TEST(Bincount, AllowsBothPlacesOfAValueNearAJump) {
  OpCase op_case;
  op_case.op = "bincount";
  op_case.in = {{4}};
  op_case.attrs = attrs({{"bins", 4}});
  op_case.draws = {Draw{.index_limit = 4}};
  const Value out = evaluate(op_case, {Value{{4}, {0, 1, 1, 3}, {0, 1, 0, 0}}}, Numerics{.unit_roundoff = 0});
  EXPECT_EQ(out.data, (std::vector<double>{1, 2, 0, 1}));
  EXPECT_EQ(out.err, (std::vector<double>{1, 1, 1, 0}));
  EXPECT_TRUE(std::isnan(evaluate(op_case, {Value{{4}, {0, 1, 4, 3}, {}}}, Numerics{}).data[0]));
}

TEST(ArgSort, OfEqualValuesTheFirstComesFirst) {
  OpCase op_case;
  op_case.op = "argsort";
  op_case.in = {{6}};
  const std::vector<Value> in = {Value{{6}, {2, NAN, 1, 2, -0.0, 0}, {}}};
  EXPECT_EQ(evaluate(op_case, in, Numerics{}).data, (std::vector<double>{4, 5, 2, 0, 3, 1}));
  op_case.attrs = attrs({{"descending", true}});
  EXPECT_EQ(evaluate(op_case, in, Numerics{}).data, (std::vector<double>{1, 0, 3, 2, 4, 5}));
}

TEST(TakeAlong, AnIndexOutsideTheAxisIsNotANumber) {
  OpCase op_case;
  op_case.op = "take_along";
  op_case.in = {{1, 2}, {1, 3}};
  op_case.draws = {Draw{}, Draw{.index_limit = 2}};
  const Value out = evaluate(op_case, {Value{{1, 2}, {5, 6}, {}}, Value{{1, 3}, {1, 2, -1}, {}}}, Numerics{});
  EXPECT_EQ(out.data[0], 6);
  EXPECT_TRUE(std::isnan(out.data[1]));
  EXPECT_TRUE(std::isnan(out.data[2]));
}

OpCase running_product(std::int64_t length) {
  OpCase result;
  result.op = "cumprod";
  result.in = {{length}};
  return result;
}

TEST(ProductBound, IsInfiniteWhereFactorsOverflowAndTheProductDoesNot) {
  std::vector<Value> in(1);
  in[0] = {.shape = {6}, .data = {2, 0, 0x1p100, 0x1p100, 0x1p-120, 3}, .err = {}};
  const Value out = evaluate(running_product(6), in, Numerics{});
  EXPECT_LT(out.err[2], 0x1p-20) << "a zero before one large factor";
  for (std::size_t i = 3; i < 6; ++i) EXPECT_TRUE(std::isinf(out.err[i])) << "infinity times zero, at " << i;
  in[0].data = {2, 1, 0x1p100, 0x1p100, 0x1p-120, 3};
  const Value overflowing = evaluate(running_product(6), in, Numerics{});
  EXPECT_TRUE(std::isfinite(overflowing.err[3])) << "the product itself is infinite in fp32";
  EXPECT_TRUE(std::isinf(overflowing.err[5])) << "which a running product stays";
  in[0].data = {0x1p100, 0x1p30, 0x1.8p-3, 1, 1, 1};
  const Value near_the_end = evaluate(running_product(6), in, Numerics{});
  EXPECT_TRUE(std::isinf(near_the_end.err[2])) << "0x1.8p127 is finite, what was before it is not";
}

TEST(ProductBound, CoversNeighboursThatUnderflowTogether) {
  std::vector<Value> in(1);
  in[0] = {.shape = {4}, .data = {0x1p120, 0x1p-100, 0x1p-100, 1}, .err = {}};
  const Value out = evaluate(running_product(4), in, Numerics{.underflow = 0x1p-126});
  EXPECT_GT(out.err[3], std::fabs(out.data[3])) << "zero is honest: 2^-200 is none in fp32";
}

Value of_vector(std::vector<double> data, std::vector<double> err = {}) {
  Value value{.shape = {static_cast<std::int64_t>(data.size())}, .data = {}, .err = {}};
  value.data.assign(data.begin(), data.end());
  value.err.assign(err.begin(), err.end());
  return value;
}

OpCase elementwise(std::string op, std::size_t inputs, std::int64_t length, Attrs attrs = {}) {
  OpCase result;
  result.op = std::move(op);
  result.in.assign(inputs, Shape{length});
  result.attrs = std::move(attrs);
  return result;
}

/// Scores under a mask of -inf, before what is made of them.
TEST(InfiniteBound, IsNoneOfWhatIsMadeOfAMasksInfinity) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<Value> masked{of_vector({-kInf, 1.5}, {0, 0x1p-20})};
  const Value zero = evaluate(elementwise("exp", 1, 2), masked, Numerics{});
  EXPECT_EQ(zero.data[0], 0);
  EXPECT_LE(zero.err[0], ops::kFlush);
  EXPECT_GT(zero.err[1], 0x1p-20);
  const Value scaled = evaluate(elementwise("scale", 1, 2, attrs({{"by", 0.3}})), masked, Numerics{});
  EXPECT_EQ(scaled.data[0], -kInf);
  EXPECT_EQ(scaled.err[0], 0);
  EXPECT_GT(scaled.err[1], 0.3 * 0x1p-20);
  for (const char* op : {"exp", "exp2", "expm1", "sigmoid", "tanh", "relu", "softplus", "atan", "neg"}) {
    const Value out = evaluate(elementwise(op, 1, 2), masked, Numerics{});
    EXPECT_LT(out.err[0], 0x1p-20) << op;
  }
}

TEST(InfiniteBound, IsNoneOfASumWithAMasksInfinity) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Value scores = of_vector({2, 1.5, 0.25}, {0x1p-20, 0x1p-20, 0.5});
  const Value mask = of_vector({-kInf, 0, -kInf});
  const Value sum = evaluate(elementwise("add", 2, 3), {scores, mask}, Numerics{});
  EXPECT_EQ(sum.err[0], 0);
  EXPECT_GT(sum.err[1], 0x1p-20);
  const Value product = evaluate(elementwise("mul", 2, 3), {scores, mask}, Numerics{});
  EXPECT_EQ(product.err[0], 0);
  EXPECT_TRUE(std::isinf(product.err[2])) << "a factor that may be negative";
  const Value logs = of_vector({-kInf, -kInf, 3});
  const Value both = evaluate(elementwise("logaddexp", 2, 3), {mask, logs}, Numerics{});
  EXPECT_EQ(both.data[0], -kInf) << "zero and zero";
  EXPECT_EQ(both.err[0], 0);
  EXPECT_EQ(both.data[1], 0);
  EXPECT_LT(both.err[1], 0x1p-20);
  EXPECT_EQ(both.data[2], 3);
  EXPECT_LT(both.err[2], 0x1p-20);
}

}  // namespace
}  // namespace lathe
