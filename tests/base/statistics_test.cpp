#include "base/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace lathe {
namespace {

TEST(InterquartileMean, ForgetsTheTailsAndSharesOutTwoModes) {
  EXPECT_EQ(interquartile_mean(std::vector{5.0}), 5);
  EXPECT_EQ(interquartile_mean(std::vector{1.0, 2.0, 4.0, 1e9}), 3);
  EXPECT_EQ(interquartile_mean(std::vector{0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0}), 0.5);
}

TEST(Statistics, DescribesASample) {
  const std::vector<double> xs = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(mean(xs), 2.5);
  EXPECT_DOUBLE_EQ(median(xs), 2.5);
  EXPECT_DOUBLE_EQ(stddev(xs), std::sqrt(5.0 / 3));
  EXPECT_DOUBLE_EQ(quantile(xs, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(xs, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(xs, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(geometric_mean(std::vector<double>{1, 4, 16}), 4);
}

TEST(Statistics, OneValueHasNoSpread) {
  EXPECT_EQ(stddev(std::vector<double>{3}), 0);
  EXPECT_EQ(median(std::vector<double>{3}), 3);
}

/// P(|T| > t) by integrating the density: a second road to the quantile.
double two_sided_tail(double t, double dof) {
  const double scale = std::exp(std::lgamma((dof + 1) / 2) - std::lgamma(dof / 2)) / std::sqrt(dof * M_PI);
  constexpr int kSteps = 20'000;
  double inside = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double x = t * (i + 0.5) / kSteps;
    inside += scale * std::pow(1 + x * x / dof, -(dof + 1) / 2) * t / kSteps;
  }
  return 1 - 2 * inside;
}

TEST(TrimmedMean, IgnoresOneWildValueOnEachSideAndCoversTheTruth) {
  const std::vector<double> wild = {1, 2, 3, 4, 5, 6, 7, 1e9};
  EXPECT_DOUBLE_EQ(trimmed_mean(wild).mean, 4.5);
  EXPECT_LT(trimmed_mean(wild).standard_error, 1.5);
  Rng rng(Seed::from_number(4));
  int inside = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<double> xs(8);
    for (double& x : xs) x = rng.normal();
    const TrimmedMean trimmed = trimmed_mean(xs);
    inside += std::fabs(trimmed.mean) < student_t(5, 0.05) * trimmed.standard_error ? 1 : 0;
  }
  EXPECT_NEAR(inside / 4000.0, 0.95, 0.015);
}

TEST(StudentT, MatchesThePrintedTable) {
  struct Row {
    double dof, alpha, t;
  };
  for (const Row& row :
       {Row{1, 0.05, 12.7062}, Row{2, 0.05, 4.30265}, Row{3, 0.05, 3.18245}, Row{4, 0.05, 2.77645},
        Row{5, 0.05, 2.57058}, Row{10, 0.05, 2.22814}, Row{30, 0.05, 2.04227}, Row{100, 0.05, 1.98397},
        Row{3, 0.01, 5.84091}, Row{10, 0.01, 3.16927}, Row{5, 0.1, 2.01505}, Row{20, 0.1, 1.72472},
        Row{10, 0.5, 0.69981}})
    EXPECT_NEAR(student_t(row.dof, row.alpha), row.t, 2e-3) << row.dof << " " << row.alpha;
}

TEST(StudentT, LeavesTheAskedShareOutside) {
  for (const double dof : {2.0, 3.0, 4.0, 7.0, 15.0, 60.0})
    for (const double alpha : {0.2, 0.1, 0.05, 0.02, 0.01})
      EXPECT_NEAR(two_sided_tail(student_t(dof, alpha), dof), alpha, 0.005 * alpha + 1e-5)
          << dof << " " << alpha;
}

TEST(SignedRankInterval, IsTheWidestWhenTheSampleIsSmall) {
  const std::vector<double> six = {3, 1, 4, 1.5, 9, 2};
  const Interval interval = signed_rank_interval(six, 0.05);  // 2 * 2^-6 = 3.1%
  EXPECT_EQ(interval.low, 1);
  EXPECT_EQ(interval.high, 9);
  const std::vector<double> five = {3, 1, 4, 1.5, 9};  // 2 * 2^-5 = 6.3%
  EXPECT_EQ(signed_rank_interval(five, 0.05).low, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(signed_rank_interval(five, 0.05).high, std::numeric_limits<double>::infinity());
}

TEST(SignedRankInterval, TakesTheCriticalValuesOfTheTables) {
  // Powers of 4 make all pairwise means distinct. The tables' two-sided 5% values are 3 for n = 8,
  // 52 for 20.
  for (const auto& [n, critical] : {std::pair{8, 3}, std::pair{20, 52}}) {
    std::vector<double> xs, means;
    for (int i = 0; i < n; ++i) xs.push_back(std::pow(4, i));
    for (std::size_t i = 0; i < xs.size(); ++i)
      for (std::size_t j = i; j < xs.size(); ++j) means.push_back((xs[i] + xs[j]) / 2);
    std::sort(means.begin(), means.end());
    const Interval interval = signed_rank_interval(xs, 0.05);
    EXPECT_EQ(interval.low, means[static_cast<std::size_t>(critical)]) << n;
    EXPECT_EQ(interval.high, means[means.size() - 1 - static_cast<std::size_t>(critical)]) << n;
  }
}

TEST(SignedRankInterval, HardlyMovesForAnOutlier) {
  std::vector<double> xs = {0.99, 1.00, 1.01, 1.00, 0.98, 1.02, 1.01, 0.99, 1.00, 1.01, 0.99};
  xs.push_back(30);
  const Interval interval = signed_rank_interval(xs, 0.05);
  EXPECT_NEAR(interval.mid, 1, 0.01);
  EXPECT_LT(interval.high, 1.05);
}

TEST(SignedRankInterval, IsAsSharpAsTheNormalLawAllowsForManyValues) {
  Rng rng(Seed::from_number(12));
  std::vector<double> xs(400);
  for (double& x : xs) x = rng.normal();
  const Interval interval = signed_rank_interval(xs, 0.05);
  EXPECT_NEAR((interval.high - interval.low) / 2, 1.96 / std::sqrt(400 * 0.955), 0.015);
}

TEST(SignedRankInterval, CoversTheCentreOfHeavyTailsAsOftenAsPromised) {
  Rng rng(Seed::from_number(11));
  for (const int size : {8, 20, 80}) {
    constexpr int kRepeats = 4000;
    int covered = 0;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      std::vector<double> xs(static_cast<std::size_t>(size));
      for (double& x : xs) x = rng.normal() / std::max(1e-9, std::fabs(rng.normal()));  // Cauchy
      const Interval interval = signed_rank_interval(xs, 0.05);
      covered += interval.low <= 0 && 0 <= interval.high;
    }
    const double coverage = static_cast<double>(covered) / kRepeats;
    EXPECT_GT(coverage, 0.95 - 0.01) << size;
    EXPECT_LT(coverage, 0.98) << size;
  }
}

}  // namespace
}  // namespace lathe
