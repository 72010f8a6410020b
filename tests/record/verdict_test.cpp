#include "record/verdict.h"

#include <gmock/gmock.h>

#include <cmath>

namespace lathe {
namespace {

Verdict timed(std::vector<Interval> ratios) {
  Verdict verdict;
  for (const Interval& ratio : ratios)
    verdict.speedups.push_back({.baseline = "naive", .shape = "s", .ratio = ratio});
  return verdict;
}

TEST(Names, RoundTripForEveryOutcomeAndDepth) {
  for (int i = 0; i <= static_cast<int>(Outcome::kInfra); ++i) {
    const auto outcome = static_cast<Outcome>(i);
    ASSERT_TRUE(parse_outcome(name(outcome)).ok()) << i;
    EXPECT_EQ(*parse_outcome(name(outcome)), outcome);
  }
  for (int i = 0; i <= static_cast<int>(Depth::kProfile); ++i) {
    const auto depth = static_cast<Depth>(i);
    ASSERT_TRUE(parse_depth(name(depth)).ok()) << i;
    EXPECT_EQ(*parse_depth(name(depth)), depth);
  }
}

TEST(Names, AnUnknownOneIsRefusedWithTheAlternatives) {
  const auto depth = parse_depth("deep");
  ASSERT_FALSE(depth.ok());
  EXPECT_THAT(depth.error().message, testing::HasSubstr("'deep'"));
  EXPECT_THAT(depth.error().hint, testing::HasSubstr("screen, final"));
  EXPECT_FALSE(parse_outcome("pass").ok());
}

TEST(VerdictSpeedup, IsAbsentAgainstABaselineThatWasNotTimed) {
  EXPECT_FALSE(timed({{1.9, 2, 2.1}}).speedup("onednn").has_value());
}

TEST(VerdictSpeedup, OfOneShapeIsThatShapes) {
  const auto speedup = timed({{1.9, 2, 2.2}}).speedup("naive");
  ASSERT_TRUE(speedup.has_value());
  EXPECT_NEAR(speedup->low, 1.9, 1e-12);
  EXPECT_NEAR(speedup->mid, 2, 1e-12);
  EXPECT_NEAR(speedup->high, 2.2, 1e-12);
}

TEST(VerdictSpeedup, IsTheGeometricMeanAndNarrowsWithTheNumberOfShapes) {
  const double width = std::log(1.1);
  const auto speedup = timed({{2 / 1.1, 2, 2 * 1.1}, {8 / 1.1, 8, 8 * 1.1}}).speedup("naive");
  ASSERT_TRUE(speedup.has_value());
  EXPECT_NEAR(speedup->mid, 4, 1e-12);
  EXPECT_NEAR(std::log(speedup->high / speedup->mid), width / std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(std::log(speedup->mid / speedup->low), width / std::sqrt(2.0), 1e-12);
}

TEST(VerdictSpeedup, OneUnboundedShapeLeavesTheWholeUnbounded) {
  const auto speedup = timed({{0, 2, HUGE_VAL}, {1.9, 2, 2.1}}).speedup("naive");
  ASSERT_TRUE(speedup.has_value());
  EXPECT_EQ(speedup->low, 0);
  EXPECT_NEAR(speedup->mid, 2, 1e-12);
  EXPECT_TRUE(std::isinf(speedup->high));
}

TEST(VerdictMedian, IsTheGeometricMeanOverShapesAndZeroWhenNotTimed) {
  Verdict verdict;
  EXPECT_EQ(verdict.median_ns(), 0);
  verdict.timings = {{.shape = "a", .median_ns = 100}, {.shape = "b", .median_ns = 400}};
  EXPECT_NEAR(verdict.median_ns(), 200, 1e-9);
}

}  // namespace
}  // namespace lathe
