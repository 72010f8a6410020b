#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "task/compare.h"

namespace lathe {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// `size` values that are 1 and should be 1, within 0.5; one of them is `got`.
ErrorSummary summary_with(std::size_t size, std::size_t place, double got, double ratio = 1) {
  const std::vector<double> want(size, 1), tolerance(size, 0.5);
  std::vector<double> values(size, 1);
  values[place] = got;
  return summarize_errors(want.data(), tolerance.data(), values.data(), size, ratio);
}

TEST(ErrorSummary, FindsOneValueBeyondItsToleranceAtEveryPlace) {
  for (const std::size_t size : {1, 7, 8, 9, 64, 100})
    for (std::size_t place = 0; place < size; ++place) {
      EXPECT_FALSE(summary_with(size, place, 1.5).outside);
      EXPECT_TRUE(summary_with(size, place, 1.6).outside);
      EXPECT_TRUE(summary_with(size, place, 0.4).outside);
      EXPECT_TRUE(summary_with(size, place, kNaN).outside);
    }
}

TEST(ErrorSummary, TellsWhetherAnyErrorIsBeyondAShareOfItsTolerance) {
  for (std::size_t place = 0; place < 17; ++place) {
    EXPECT_FALSE(summary_with(17, place, 1.1, 0.25).above);
    EXPECT_TRUE(summary_with(17, place, 1.2, 0.25).above);
    EXPECT_TRUE(summary_with(17, place, kNaN, 0.25).above);
  }
}

TEST(ErrorSummary, AddsTheSquaresOfAllDifferences) {
  EXPECT_DOUBLE_EQ(summary_with(21, 20, 4).square_sum, 9);
  EXPECT_DOUBLE_EQ(summary_with(21, 3, -1).square_sum, 4);
  EXPECT_TRUE(std::isnan(summary_with(21, 3, kNaN).square_sum));
  EXPECT_DOUBLE_EQ(summarize_errors(nullptr, nullptr, nullptr, 0, 1).square_sum, 0);
}

}  // namespace
}  // namespace lathe
