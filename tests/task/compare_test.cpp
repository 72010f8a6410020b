#include "task/compare.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/random.h"
#include "tests/task/example_tasks.h"

namespace lathe {
namespace {

Expected expected_of(std::vector<double> values, double err) {
  Expected expected;
  expected.value.shape = {static_cast<std::int64_t>(values.size())};
  expected.value.err.assign(values.size(), err);
  expected.value.data = std::move(values);
  return expected;
}

Comparison check(const Expected& expected, std::vector<double> got, const RmsLimit* limit = nullptr) {
  const HostTensor tensor = HostTensor::encode(expected.dtype, expected.value.shape, got);
  return compare(expected, tensor.bytes, limit);
}

TEST(Compare, AcceptsWhatLiesInsideTheBound) {
  const Expected expected = expected_of({1, 2, 3}, 0.25);
  const Comparison result = check(expected, {1.125, 2, 2.875});
  EXPECT_TRUE(result.pass);
  EXPECT_DOUBLE_EQ(result.worst_ratio, 0.5);
}

TEST(Compare, NamesTheFirstBadElement) {
  const Comparison result = check(expected_of({1, 2, 3, 4}, 0.25), {1, 2.5, 3, 9});
  EXPECT_FALSE(result.pass);
  EXPECT_EQ(result.reason, "bound");
  EXPECT_EQ(result.first_bad, 1);
  EXPECT_EQ(result.bad_count, 2);
  EXPECT_EQ(result.got, 2.5);
  EXPECT_EQ(result.want, 2);
}

TEST(Compare, NaNIsNoWildcard) {
  EXPECT_EQ(check(expected_of({1, 2}, 0.25), {1, NAN}).reason, "nan_mask");
  EXPECT_EQ(check(expected_of({1, NAN}, 0.25), {1, 2}).reason, "nan_mask");
  EXPECT_EQ(check(expected_of({1, INFINITY}, 0.25), {1, -INFINITY}).reason, "nan_mask");
  EXPECT_EQ(check(expected_of({1, 2}, 0.25), {1, INFINITY}).reason, "nan_mask");
  EXPECT_TRUE(check(expected_of({NAN, INFINITY, -INFINITY}, 0.25), {NAN, INFINITY, -INFINITY}).pass);
  EXPECT_TRUE(check(expected_of({1e39}, 1e30), {INFINITY}).pass) << "fp32 overflows here";
}

TEST(Compare, AFormatWithoutInfinityEndsAtItsLargestNumber) {
  const auto answer = [](DType dtype, double want, double got) {
    Expected expected = expected_of({want}, 1);
    expected.dtype = dtype;
    return compare(expected, HostTensor::encode(dtype, {1}, std::vector{got}).bytes, nullptr).reason;
  };
  EXPECT_EQ(answer(DType::kF8E4M3, 5000, 448), "");
  EXPECT_EQ(answer(DType::kF8E4M3, -INFINITY, -448), "");
  EXPECT_EQ(answer(DType::kF8E4M3, 5000, -448), "nan_mask");
  EXPECT_EQ(answer(DType::kF8E4M3, 5000, 416), "nan_mask");
  EXPECT_EQ(answer(DType::kF8E4M3, 400, 448), "bound");
  EXPECT_EQ(answer(DType::kF8E5M2, 1e6, 57344), "nan_mask") << "which has one";
}

/// An infinity's propagated error is the product of infinity and 0.
TEST(Compare, AnInfinityIsItselfWhateverItsBound) {
  EXPECT_TRUE(check(expected_of({INFINITY, -INFINITY}, NAN), {INFINITY, -INFINITY}).pass);
  EXPECT_EQ(check(expected_of({INFINITY}, NAN), {-INFINITY}).reason, "nan_mask");
}

TEST(Compare, AByteThatIsNeitherFalseNorTrueIsWrong) {
  Expected expected = expected_of({1, 0, 1}, 0);
  expected.dtype = DType::kBool;
  expected.compare = CompareKind::kExact;
  const auto answer = [&](std::uint8_t a, std::uint8_t b, std::uint8_t c) {
    return compare(expected, std::vector{std::byte{a}, std::byte{b}, std::byte{c}}, nullptr).pass;
  };
  EXPECT_TRUE(answer(1, 0, 1));
  EXPECT_FALSE(answer(1, 0, 255));
  EXPECT_FALSE(answer(0x55, 0, 1)) << "memory that nobody wrote";
}

TEST(Compare, LargeWholeNumbersAreEqualToTheLastBit) {
  const double large = 0x1p60;
  Expected expected = expected_of({large, -large, 7}, 0);
  expected.dtype = DType::kI64;
  expected.compare = CompareKind::kExact;
  const auto answer = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
    const std::int64_t all[] = {a, b, c};
    return compare(expected, std::as_bytes(std::span(all)), nullptr);
  };
  const std::int64_t exact = std::int64_t{1} << 60;
  EXPECT_TRUE(answer(exact, -exact, 7).pass);
  EXPECT_EQ(answer(exact, 1 - exact, 7).first_bad, 1);
  EXPECT_EQ(answer(exact, -exact, 8).first_bad, 2);
}

TEST(Compare, OfAPartOnlyWhatIsKnownIsCompared) {
  Expected expected = expected_of({2, 3, 9}, 0.25);
  expected.known = {{2, 2, 0}, {9, 1, 2}};
  expected.of = 10;
  std::vector<float> got(10, NAN);
  got[2] = 2, got[3] = 3, got[9] = 9;
  EXPECT_TRUE(compare(expected, std::as_bytes(std::span(got)), nullptr).pass);
  got[9] = 8;
  EXPECT_EQ(compare(expected, std::as_bytes(std::span(got)), nullptr).bad_count, 1);
}

TEST(Compare, AnElementOfWhichNothingIsKnownMayBeAnything) {
  EXPECT_TRUE(check(expected_of({0, 1}, INFINITY), {NAN, -INFINITY}).pass);
  EXPECT_EQ(check(expected_of({INFINITY}, INFINITY), {NAN}).reason, "nan_mask") << "this one is known";
}

TEST(Compare, HoldsTheRmsToEightTimesTheNaiveBuilds) {
  std::vector<double> want(10000);
  Rng rng(Seed::from_number(1));
  for (double& x : want) x = rng.normal();
  const Expected expected = expected_of(want, 6e-3);
  const auto noisy = [&](double size) {
    std::vector<double> got = want;
    for (double& x : got) x += size * rng.normal();
    return got;
  };
  const HostTensor naive = HostTensor::encode(DType::kF32, expected.value.shape, noisy(4e-4));
  const RmsLimit limit = measure_rms(expected, naive.bytes);
  EXPECT_NEAR(limit.global, 4e-4, 2e-5);
  ASSERT_EQ(limit.tiles.size(), 3U);
  EXPECT_TRUE(check(expected, noisy(1e-3), &limit).pass);
  std::vector<double> shifted = want;
  for (double& x : shifted) x += 4e-3;
  EXPECT_EQ(check(expected, shifted, &limit).reason, "rms");
  std::vector<double> bad_tile = want;
  for (std::size_t i = 4096; i < 8192; ++i) bad_tile[i] += 4e-3;
  EXPECT_EQ(check(expected, bad_tile, &limit).reason, "tile_rms");
  EXPECT_TRUE(check(expected, bad_tile).pass) << "the bound alone would let it through";
}

TEST(Compare, ALuckyNaiveBuildIsFlooredAtTheOutputsRounding) {
  const Expected expected = expected_of(std::vector<double>(1000, 1.0), 1e-5);
  const HostTensor exact = HostTensor::encode(DType::kF32, expected.value.shape, expected.value.data);
  EXPECT_GE(measure_rms(expected, exact.bytes).global, 0x1p-24);
}

/// All elements of a softmax's only row share the error of one sum, which the naive build may not
/// have.
TEST(Compare, ALuckyNaiveBuildDoesNotAccuseASingleRow) {
  const std::vector<double> row(2384, 1.0);
  const Expected expected = expected_of(row, 1.5e-4);
  const HostTensor exact = HostTensor::encode(DType::kF32, expected.value.shape, row);
  const RmsLimit limit = measure_rms(expected, exact.bytes);
  EXPECT_TRUE(check(expected, std::vector<double>(2384, 1 + 0.3 * 1.5e-4), &limit).pass);
  EXPECT_EQ(check(expected, std::vector<double>(2384, 1 + 0.8 * 1.5e-4), &limit).reason, "rms")
      << "what nearly reaches the bound everywhere is of low precision";
}

TEST(Compare, HalfOfTheBoundIsNoLimitForElementsWithSumsOfTheirOwn) {
  std::vector<double> want(5000);
  Rng rng(Seed::from_number(1));
  for (double& x : want) x = rng.normal();
  Expected expected = expected_of(want, 1e-3);
  const auto noisy = [&](double size) {
    std::vector<double> got = want;
    for (double& x : got) x += size * rng.normal();
    return got;
  };
  const HostTensor naive = HostTensor::encode(DType::kF32, expected.value.shape, noisy(1e-6));
  const RmsLimit lenient = measure_rms(expected, naive.bytes);
  expected.sums = Sums::kOwn;
  const RmsLimit strict = measure_rms(expected, naive.bytes);
  EXPECT_TRUE(check(expected, noisy(5e-5), &lenient).pass);
  EXPECT_EQ(check(expected, noisy(5e-5), &strict).reason, "rms");
  EXPECT_TRUE(check(expected, noisy(6e-6), &strict).pass);
  const HostTensor exact = HostTensor::encode(DType::kF32, expected.value.shape, want);
  const RmsLimit lucky = measure_rms(expected, exact.bytes);
  EXPECT_TRUE(check(expected, noisy(12 * 0x1p-24), &lucky).pass) << "what products of split numbers lose";
  EXPECT_EQ(check(expected, noisy(0x1p-18), &lucky).reason, "rms");
}

TEST(Compare, SumsOfProductsThatElementsShareTellLowPrecisionToo) {
  std::vector<double> want(5000);
  Rng rng(Seed::from_number(1));
  for (double& x : want) x = rng.normal();
  const HostTensor naive = HostTensor::encode(DType::kF32, {5000}, want);
  const auto passes = [&](Sums sums, double bound, double relative_error) {
    Expected expected = expected_of(want, bound);
    expected.sums = sums;
    const RmsLimit limit = measure_rms(expected, naive.bytes);
    std::vector<double> got = want;
    for (double& x : got) x *= 1 + relative_error;
    return check(expected, got, &limit).pass;
  };
  constexpr double kTf32 = 3e-4;  // of products of ordinary values
  EXPECT_TRUE(passes(Sums::kUnknown, 2e-3, kTf32));
  EXPECT_FALSE(passes(Sums::kShared, 2e-3, kTf32));
  EXPECT_TRUE(passes(Sums::kShared, 2e-3, 150 * 0x1p-24)) << "what a serial sum may lose";
  EXPECT_FALSE(passes(Sums::kShared, 1e-5, 150 * 0x1p-24)) << "half of the bound";
  EXPECT_TRUE(passes(Sums::kConvolution, 2e-3, 110 * 0x1p-24)) << "what Winograd's F(6x6, 3x3) loses";
  EXPECT_FALSE(passes(Sums::kOwn, 2e-3, 25 * 0x1p-24));
}

TEST(Compare, AmplifiedProductsAreComparedByTheirBounds) {
  std::vector<double> divisor(5000), want(5000);
  Rng rng(Seed::from_number(1));
  Expected expected = expected_of(want, 0);
  for (std::size_t i = 0; i < want.size(); ++i) {
    divisor[i] = i == 77 ? 1e-5 : 0.5 + std::fabs(rng.normal());
    expected.value.data[i] = want[i] = rng.normal() / divisor[i];
    expected.value.err[i] = 2e-3 / divisor[i];
  }
  const auto off_by = [&](double error, double at_the_largest) {
    std::vector<double> got = want;
    for (std::size_t i = 0; i < got.size(); ++i)
      got[i] += (i == 77 ? at_the_largest : error) * rng.normal() / divisor[i];
    return got;
  };
  expected.sums = Sums::kAmplified;
  const RmsLimit limit =
      measure_rms(expected, HostTensor::encode(DType::kF32, expected.value.shape, off_by(1e-6, 1e-9)).bytes);
  EXPECT_TRUE(check(expected, off_by(3e-6, 4e-4), &limit).pass) << "luck at the largest element";
  EXPECT_EQ(check(expected, off_by(3e-4, 1e-9), &limit).reason, "rms")
      << "as TF32, hidden by the largest element";
}

TEST(Compare, FewElementsOnAJumpsOtherSideHideNoPrecision) {
  std::vector<double> want(5000);
  Rng rng(Seed::from_number(1));
  for (double& x : want) x = rng.normal();
  Expected expected = expected_of(want, 2e-3);
  expected.sums = Sums::kJumping;
  for (std::size_t i = 0; i < want.size(); i += 100) expected.value.err[i] = 1;
  const auto off_by = [&](double error, std::size_t flipped) {
    std::vector<double> got = want;
    for (double& x : got) x += error * rng.normal();
    for (std::size_t i = 0; i < flipped; ++i) got[100 * i] = want[100 * i] + 0.99;
    return got;
  };
  const RmsLimit limit =
      measure_rms(expected, HostTensor::encode(DType::kF32, expected.value.shape, off_by(1e-6, 0)).bytes);
  EXPECT_TRUE(check(expected, off_by(4e-6, 20), &limit).pass);
  EXPECT_EQ(check(expected, off_by(3e-4, 0), &limit).reason, "rms");
  EXPECT_EQ(check(expected, off_by(3e-4, 20), &limit).reason, "rms");
}

TEST(Compare, WhatNothingIsKnownOfCountsInNoRmsError) {
  std::vector<double> want(5000, 1.0);
  Expected expected = expected_of(want, 1e-3);
  for (std::size_t i = 0; i < want.size(); i += 50)
    expected.value.err[i] = INFINITY, expected.value.data[i] = want[i] = 1e20;
  const HostTensor naive = HostTensor::encode(DType::kF32, expected.value.shape, want);
  const RmsLimit limit = measure_rms(expected, naive.bytes);
  std::vector<double> got = want;
  for (std::size_t i = 0; i < got.size(); i += 50) got[i] = 2e20;
  EXPECT_TRUE(check(expected, got, &limit).pass);
}

TEST(Compare, AFewSumsOfProductsTellLowPrecision) {
  const std::vector<double> want(100, 1.5);
  const HostTensor naive = HostTensor::encode(DType::kF32, {100}, want);
  const auto passes = [&](Sums sums) {
    Expected expected = expected_of(want, 2e-3);
    expected.sums = sums;
    const RmsLimit limit = measure_rms(expected, naive.bytes);
    return check(expected, std::vector<double>(100, 1.5 + 1.5e-3), &limit).pass;
  };
  EXPECT_TRUE(passes(Sums::kUnknown)) << "they may share one error";
  EXPECT_FALSE(passes(Sums::kOwn));
  EXPECT_FALSE(passes(Sums::kShared));
}

TEST(Compare, OutputsWithTooFewSumsAreJudgedTogether) {
  const std::vector<double> want(16, 1.5);
  const HostTensor naive = HostTensor::encode(DType::kF32, {16}, want);
  const auto together = [&](Sums sums, double error, int calls) {
    Expected expected = expected_of(want, 2e-3);
    expected.sums = sums;
    const RmsLimit limit = measure_rms(expected, naive.bytes);
    FewErrors few;
    for (int call = 0; call < calls; ++call) {
      const Comparison one = check(expected, std::vector<double>(16, 1.5 + error), &limit);
      EXPECT_TRUE(one.pass);
      few += one.few;
    }
    return few.pass();
  };
  EXPECT_FALSE(together(Sums::kOwn, 3e-6, 4));
  EXPECT_TRUE(together(Sums::kOwn, 3e-6, 1)) << "of 16 elements luck could have made the limit";
  EXPECT_FALSE(together(Sums::kOwn, 1e-4, 1)) << "but no such one";
  EXPECT_FALSE(together(Sums::kShared, 1e-3, 4));
  EXPECT_TRUE(together(Sums::kShared, 1e-3, 3)) << "48 elements may have one error";
  EXPECT_TRUE(together(Sums::kOwn, 1e-6, 4));
  EXPECT_TRUE(together(Sums::kUnknown, 1e-4, 40)) << "they may share one error";
}

/// A mean of bf16 is as exact as fp32 makes it and rounded once, in either way.
TEST(Compare, OneRoundingToANarrowDTypeHidesNoOther) {
  constexpr double kUnit = 0x1p-8;
  std::vector<double> want;
  for (int i = 0; i < 200; ++i) want.push_back((i % 2 == 0 ? 1 : -1) * (1 + i / 137.0));
  Expected expected = expected_of(want, 0);
  expected.dtype = DType::kBF16;
  for (std::size_t i = 0; i < want.size(); ++i) expected.value.err[i] = 2.01 * kUnit * std::fabs(want[i]);
  expected.unrounded.assign(want.size(), 1e-6);
  const auto rounded = [&](double share, auto round) {
    std::vector<double> got;
    for (const double x : want) {
      const double step = 2 * kUnit * std::exp2(std::ilogb(x));
      got.push_back(round(x * (1 + share) / step) * step);
    }
    return got;
  };
  const auto nearest = [](double x) { return std::nearbyint(x); };
  const auto zero = [](double x) { return std::trunc(x); };
  const RmsLimit limit = measure_rms(expected, HostTensor::encode(DType::kBF16, {200}, want).bytes);
  EXPECT_FALSE(limit.beyond_rounding);
  EXPECT_FALSE(check(expected, rounded(0, nearest), &limit).beyond.to_nearest);
  const Comparison truncated = check(expected, rounded(0, zero), &limit);
  EXPECT_TRUE(truncated.pass);
  EXPECT_TRUE(truncated.beyond.to_nearest);
  EXPECT_FALSE(truncated.beyond.towards_zero);
  EXPECT_TRUE(check(expected, rounded(kUnit / 32, nearest), &limit).pass) << "an exponential of 13 bits";
  EXPECT_EQ(check(expected, rounded(kUnit / 4, nearest), &limit).reason, "rms");
  EXPECT_TRUE(check(expected, rounded(kUnit / 4, nearest)).pass) << "within the bound";
  const HostTensor off = HostTensor::encode(DType::kBF16, {200}, rounded(kUnit / 4, nearest));
  const RmsLimit of_coarse_naive = measure_rms(expected, off.bytes);
  EXPECT_TRUE(of_coarse_naive.beyond_rounding);
  EXPECT_TRUE(check(expected, rounded(kUnit / 4, nearest), &of_coarse_naive).pass);
}

/// The largest exponentials have nearly all of the error.
TEST(Compare, WhatIsComputedOneByOneMayReachItsBound) {
  std::vector<double> want(5000, 1e-3);
  want[17] = 1e6;
  Expected expected = expected_of(want, 0);
  for (std::size_t i = 0; i < want.size(); ++i) expected.value.err[i] = 30 * 0x1p-24 * want[i];
  std::vector<double> got = want;
  got[17] *= 1 + 26 * 0x1p-24;
  const HostTensor naive = HostTensor::encode(DType::kF32, {5000}, want);
  expected.sums = Sums::kNone;
  RmsLimit limit = measure_rms(expected, naive.bytes);
  EXPECT_TRUE(check(expected, got, &limit).pass);
  expected.sums = Sums::kUnknown;
  limit = measure_rms(expected, naive.bytes);
  EXPECT_EQ(check(expected, got, &limit).reason, "rms");
}

TEST(Compare, ExactMeansEveryElement) {
  Expected expected = expected_of({1, 2, 3}, 0);
  expected.compare = CompareKind::kExact;
  expected.dtype = DType::kI32;
  EXPECT_TRUE(check(expected, {1, 2, 3}).pass);
  EXPECT_EQ(check(expected, {1, 2, 4}).reason, "exact");
}

TEST(Compare, ExactAllowsBothSidesOfAJumpWhereTheArgumentIsNearOne) {
  Expected expected = expected_of({1, 2, 3}, 0);
  expected.compare = CompareKind::kExact;
  expected.dtype = DType::kI8;
  expected.value.err = {0, 1, 0};
  EXPECT_TRUE(check(expected, {1, 3, 3}).pass);
  EXPECT_TRUE(check(expected, {1, 1, 3}).pass);
  EXPECT_EQ(check(expected, {1, 4, 3}).reason, "exact");
  EXPECT_EQ(check(expected, {2, 2, 3}).reason, "exact");
}

TEST(Compare, ArgmaxIsJudgedByValue) {
  Expected expected = expected_of({0, 2}, 0);
  expected.compare = CompareKind::kArgmax;
  expected.dtype = DType::kI64;
  expected.source = {{2, 3}, {5, 5, 1, 0, 1, 1.5}, {0, 0, 0, 0.3, 0.3, 0.3}};
  EXPECT_TRUE(check(expected, {0, 2}).pass);
  EXPECT_TRUE(check(expected, {1, 2}).pass) << "a tie";
  EXPECT_TRUE(check(expected, {0, 1}).pass) << "within both elements' bounds";
  EXPECT_EQ(check(expected, {2, 2}).reason, "argmax");
  EXPECT_EQ(check(expected, {0, 3}).reason, "argmax");
  EXPECT_EQ(check(expected, {-1, 2}).reason, "argmax");
}

/// Two lines of three whose elements lie side by side, and the ranks of their values.
Expected expected_ranks() {
  Expected expected = expected_of({0, 2, 1, 0, 2, 1}, 0);
  expected.compare = CompareKind::kArgsort;
  expected.dtype = DType::kI64;
  expected.source = {{2, 3}, {1, 1, 2, 5, 7, 3}, std::vector<double>(6)};
  expected.value.data = {0, 2, 1, 0, 2, 1};
  expected.line_length = 3;
  expected.line_stride = 2;
  return expected;
}

TEST(Compare, ArgsortIsJudgedByTheValuesInOrder) {
  const Expected expected = expected_ranks();
  EXPECT_TRUE(check(expected, {0, 2, 1, 0, 2, 1}).pass);
  EXPECT_TRUE(check(expected, {1, 2, 0, 0, 2, 1}).pass) << "a tie";
  EXPECT_EQ(check(expected, {2, 2, 1, 0, 0, 1}).reason, "argsort");
  EXPECT_EQ(check(expected, {0, 0, 1, 2, 2, 1}).reason, "argsort") << "in no order";
  EXPECT_EQ(check(expected, {0, 2, 1, 0, 2, 3}).reason, "argsort") << "outside the line";
  EXPECT_EQ(check(expected, {0, 2, 1, 0, 2, -1}).reason, "argsort");
}

TEST(Compare, ArgsortReturnsNoIndexTwice) {
  const Comparison result = check(expected_ranks(), {0, 2, 0, 0, 2, 1});
  EXPECT_EQ(result.reason, "argsort") << "the values are in order, but one is missing";
  EXPECT_EQ(result.first_bad, 2);
  EXPECT_EQ(result.bad_count, 1);
}

TEST(Compare, ArgsortAllowsAnotherOrderWithinTheBounds) {
  Expected expected = expected_ranks();
  EXPECT_FALSE(check(expected, {0, 0, 1, 2, 2, 1}).pass);
  expected.source.err = {0, 0, 0, 1, 0, 1};
  expected.value.err = {0, 1, 0, 1, 0, 0};
  EXPECT_TRUE(check(expected, {0, 0, 1, 2, 2, 1}).pass);
  EXPECT_FALSE(check(expected, {0, 2, 1, 1, 2, 0}).pass) << "a value far from its rank";
}

/// Lines of 64 normal values in the order of what a kernel makes of them, whose errors are `error`.
struct Ranked {
  Expected expected = expected_of({}, 0);
  std::vector<double> values;

  explicit Ranked(std::size_t lines, CompareKind compare) : values(64 * lines) {
    Rng rng(Seed::from_number(1));
    for (double& x : values) x = rng.normal();
    expected.compare = compare;
    expected.dtype = DType::kI64;
    expected.source = {{static_cast<std::int64_t>(lines), 64}, values, std::vector<double>(values.size(), 1)};
    expected.value.data = indices(0);
    const auto per_line = static_cast<std::int64_t>(expected.value.data.size() / lines);
    expected.value.shape = {static_cast<std::int64_t>(lines), per_line};
    expected.value.err.assign(expected.value.data.size(), 1);
    expected.line_length = static_cast<std::size_t>(per_line);
  }

  std::vector<double> indices(double error) const {
    Rng rng(Seed::from_number(2));
    std::vector<double> all;
    for (std::size_t begin = 0; begin < values.size(); begin += 64) {
      std::vector<std::pair<double, double>> line;
      for (std::size_t i = 0; i < 64; ++i)
        line.emplace_back(-values[begin + i] + error * rng.normal(), static_cast<double>(i));
      std::ranges::sort(line);
      const std::size_t kept = expected.compare == CompareKind::kArgmax ? 1 : line.size();
      for (std::size_t i = 0; i < kept; ++i) all.push_back(line[i].second);
    }
    return all;
  }
};

TEST(Compare, TheOrderOfValuesTellsHowExactTheyWere) {
  for (const CompareKind compare : {CompareKind::kArgsort, CompareKind::kArgmax}) {
    Ranked ranked(2048, compare);
    const auto indices_off_by = [&](double error) {
      return HostTensor::encode(DType::kI64, ranked.expected.value.shape, ranked.indices(error)).bytes;
    };
    const auto judged = [&](double error, double of_naive = 0) {
      const RmsLimit limit = measure_rms(ranked.expected, indices_off_by(of_naive));
      return lathe::compare(ranked.expected, indices_off_by(error), &limit);
    };
    EXPECT_TRUE(judged(1e-2).pass) << "by the bounds alone";
    ranked.expected.order = {.of_values = 1e-3};
    EXPECT_TRUE(judged(3e-4).pass);
    EXPECT_EQ(judged(1e-2).reason, "rms");
    EXPECT_TRUE(judged(1e-2, 5e-3).pass) << "the naive build loses half as much";
    ranked.expected.order.of_bounds = 1e-2;
    EXPECT_TRUE(judged(5e-3).pass) << "what values may lose may be more";
    EXPECT_EQ(judged(1e-1).reason, "rms");
  }
}

TEST(Compare, AMissOfItsOwnInTheOrderMayBeTwiceAsLarge) {
  Ranked ranked(1, CompareKind::kArgsort);
  const auto judged = [&](double gap) {
    std::vector<double> got = ranked.expected.value.data;
    std::swap(got[30], got[31]);
    const double first = ranked.values[static_cast<std::size_t>(got[30])];
    ranked.expected.source.data = ranked.values;
    ranked.expected.source.data[static_cast<std::size_t>(got[31])] = first + gap;
    double squares = 0;
    for (const double x : ranked.expected.source.data) squares += x * x;
    ranked.expected.order = {.of_values = 1e-3 / std::sqrt(squares / 64)};
    const RmsLimit limit;
    return check(ranked.expected, got, &limit);
  };
  EXPECT_TRUE(judged(1.3e-3).pass);
  EXPECT_EQ(judged(1.5e-3).reason, "rms") << "two of four";

  const auto together = [&](std::initializer_list<double> gaps) {
    FewErrors few;
    for (const double gap : gaps) few += judged(gap).few;
    return few.pass();
  };
  EXPECT_TRUE(together({1.3e-3}));
  EXPECT_FALSE(together({1.3e-3, 1.3e-3})) << "four of four";
  EXPECT_TRUE(together({1.3e-3, 1e-5, 1e-5, 1e-5}));
  EXPECT_TRUE(together({0.9e-3, 0.9e-3, 0.9e-3, 0.9e-3, 0.9e-3}));
}

/// One line of three tiles, each of which is enough to see a mistake in it.
TEST(Compare, ASampleOfAnArgsortIsJudgedByItsTiles) {
  constexpr std::size_t kCount = 3 * kRmsTile;
  std::vector<double> indices(kCount);
  std::iota(indices.rbegin(), indices.rend(), 0.0);
  Expected expected = expected_of(indices, 0);
  expected.compare = CompareKind::kArgsort;
  expected.dtype = DType::kI64;
  expected.source = {{kCount}, std::vector<double>(kCount), {}};
  for (std::size_t i = 0; i < kCount; ++i) expected.source.data[i] = -static_cast<double>(i / 2);
  expected.line_length = kCount;
  const auto passes = [&](const std::vector<double>& got, const TileChoice& choice) {
    return compare_sample(expected, HostTensor::encode(DType::kI64, {kCount}, got).bytes, choice).pass;
  };
  for (std::uint64_t secret = 0; secret < 8; ++secret) {
    const TileChoice choice{0.5, secret};
    for (std::size_t tile = 0; tile < 3; ++tile) {
      std::vector<double> tied = indices, repeated = indices, swapped = indices;
      const std::size_t at = tile * kRmsTile + 100;
      std::swap(tied[at], tied[at + 1]);
      repeated[at] = repeated[at + 1];
      std::swap(swapped[at], swapped[at + 2]);
      EXPECT_TRUE(passes(tied, choice));
      EXPECT_EQ(passes(repeated, choice), !choice.includes(tile));
      EXPECT_EQ(passes(swapped, choice), !choice.includes(tile));
    }
  }
}

/// The first of two largest of three.
TEST(Compare, ArgsortOfAPartOfTheRanks) {
  Expected expected = expected_ranks();
  expected.value = {{2, 1}, {2, 1}, {}};
  expected.line_length = 1;
  expected.line_stride = 1;
  EXPECT_TRUE(check(expected, {2, 1}).pass);
  EXPECT_FALSE(check(expected, {1, 1}).pass);
  EXPECT_FALSE(check(expected, {2, 0}).pass);
}

TEST(Compare, TakesMillisecondsForFourMillionElements) {
  const Expected expected = expected_of(std::vector<double>(1 << 22, 1.0), 1e-6);
  const HostTensor tensor = HostTensor::encode(DType::kF32, expected.value.shape, expected.value.data);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(compare(expected, tensor.bytes, nullptr).pass);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", std::to_string(spent.count()));
  EXPECT_LT(spent.count(), 200) << "10 ms on a quiet machine";
}

}  // namespace
}  // namespace lathe
