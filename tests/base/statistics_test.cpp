#include "base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace lathe {
namespace {

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

TEST(MedianInterval, IsTheWidestWhenTheSampleIsSmall) {
  const std::vector<double> six = {3, 1, 4, 1.5, 9, 2};
  const Interval interval = median_interval(six, 0.05);  // 2 * 2^-6 = 3.1%
  EXPECT_EQ(interval.low, 1);
  EXPECT_EQ(interval.high, 9);
  EXPECT_EQ(interval.mid, 2.5);
  const std::vector<double> five = {3, 1, 4, 1.5, 9};  // 2 * 2^-5 = 6.3%
  EXPECT_EQ(median_interval(five, 0.05).low, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(median_interval(five, 0.05).high, std::numeric_limits<double>::infinity());
}

TEST(MedianInterval, TakesTheOrderStatisticsOfTheSignTest) {
  std::vector<double> ranks(100);
  std::iota(ranks.begin(), ranks.end(), 1);
  const Interval interval = median_interval(ranks, 0.05);  // the tables give 40 and 61
  EXPECT_EQ(interval.low, 40);
  EXPECT_EQ(interval.high, 61);
}

TEST(MedianInterval, ShrinksAsTheRootOfALargeSample) {
  std::vector<double> ranks(10'000);
  std::iota(ranks.begin(), ranks.end(), 1);
  const Interval interval = median_interval(ranks, 0.05);  // n/2 -+ 1.96 sqrt(n)/2
  EXPECT_NEAR(interval.low, 5000 - 98, 2);
  EXPECT_NEAR(interval.high, 5001 + 98, 2);
}

TEST(MedianInterval, CoversTheMedianOfASkewedLawAsOftenAsPromised) {
  Rng rng(Seed::from_number(11));
  for (const int size : {8, 20, 80}) {
    constexpr int kRepeats = 4000;
    int covered = 0;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      std::vector<double> xs(static_cast<std::size_t>(size));
      for (double& x : xs) x = std::exp(2 * rng.normal());  // median 1, mean 7.4
      const Interval interval = median_interval(xs, 0.05);
      covered += interval.low <= 1 && 1 <= interval.high;
    }
    const double coverage = static_cast<double>(covered) / kRepeats;
    EXPECT_GT(coverage, 0.95 - 0.01) << size;
    EXPECT_LT(coverage, 0.998) << size;
  }
}

}  // namespace
}  // namespace lathe
