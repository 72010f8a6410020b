#include "reward/reward.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/random.h"

namespace lathe {
namespace {

using testing::HasSubstr;

Verdict passed(std::vector<Interval> shapes) {
  Verdict verdict;
  verdict.outcome = Outcome::kPass;
  verdict.depth = Depth::kScreen;
  verdict.profile = {{"launched_share", 0.75}};
  for (std::size_t i = 0; i < shapes.size(); ++i)
    verdict.speedups.push_back({.baseline = "cublas", .shape = "s" + std::to_string(i), .ratio = shapes[i]});
  return verdict;
}

Verdict fast(double low) { return passed({{low, 1.1 * low, 1.2 * low}}); }

double value(std::string_view name, const Verdict& verdict, std::string_view peer = "cublas") {
  const auto reward = find_reward(name);
  EXPECT_TRUE(reward.ok()) << name;
  const auto got = reward->function(verdict, peer);
  EXPECT_TRUE(got.ok()) << got.error().to_string();
  return got.ok() ? *got : std::nan("");
}

/// What every reward promises, whatever its formula.
class EveryReward : public testing::TestWithParam<Reward> {
 protected:
  double value(const Verdict& verdict) const { return lathe::value(GetParam().name, verdict); }
};

INSTANTIATE_TEST_SUITE_P(Named, EveryReward, testing::ValuesIn(rewards().begin(), rewards().end()),
                         [](const auto& instance) {
                           std::string name(instance.param.name);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST_P(EveryReward, IsZeroForAFailureHoweverFastItLooks) {
  for (const Outcome outcome : {Outcome::kBuildFailed, Outcome::kWrong, Outcome::kCrash, Outcome::kTimeout,
                                Outcome::kTampered, Outcome::kSuspect}) {
    Verdict verdict = fast(50);
    verdict.outcome = outcome;
    EXPECT_EQ(value(verdict), 0) << name(outcome);
  }
}

TEST_P(EveryReward, IsPositiveForAnythingCorrectHoweverSlow) {
  for (const double low : {0.0, 1e-12, 0.01, 1.0}) EXPECT_GT(value(fast(low)), 0) << low;
  Verdict not_timed = fast(2);
  not_timed.speedups.clear();
  not_timed.depth = Depth::kVerify;
  EXPECT_GT(value(not_timed), 0);
}

TEST_P(EveryReward, OfInfraIsNone) {
  Verdict verdict = fast(2);
  verdict.outcome = Outcome::kInfra;
  const auto reward = GetParam().function(verdict, "cublas");
  ASSERT_FALSE(reward.ok());
  EXPECT_EQ(reward.error().code, ErrorCode::kUnavailable);
}

TEST_P(EveryReward, NeverFallsWhenTheLowerBoundRises) {
  Rng rng(Seed::from_number(7));
  for (int i = 0; i < 2000; ++i) {
    const double low = std::exp(4 * rng.normal()), higher = low * (1 + rng.uniform());
    EXPECT_LE(value(fast(low)), value(fast(higher))) << low << " " << higher;
  }
}

TEST_P(EveryReward, DoesNotLookAtTheRestOfTheInterval) {
  EXPECT_DOUBLE_EQ(value(passed({{1.1, 1.2, 1.3}})), value(passed({{1.1, 40, 90}})));
}

TEST_P(EveryReward, GainsNothingByLeavingOutShapesWhereItIsSlow) {
  const Verdict whole = passed({{0.5, 0.6, 0.7}, {0.5, 0.6, 0.7}});
  Verdict half = passed({{0.5, 0.6, 0.7}});
  half.uncovered = {"s1"};
  EXPECT_LE(value(half), value(whole) + 1e-12);
}

TEST(Rewards, FollowTheirFormulas) {
  EXPECT_DOUBLE_EQ(value("correct", fast(9)), 1);
  EXPECT_DOUBLE_EQ(value("speedup", fast(1.5)), 2.5);
  EXPECT_DOUBLE_EQ(value("speedup", fast(7)), 4);
  EXPECT_DOUBLE_EQ(value("log_speedup", fast(3)), 3);
  EXPECT_DOUBLE_EQ(value("dr_kernel", fast(2)), 1.5);
  EXPECT_DOUBLE_EQ(value("dr_kernel", fast(30)), 2);
  EXPECT_DOUBLE_EQ(value("dr_kernel_profiled", fast(2)), 1.5 + 0.5 * 0.75);
  EXPECT_DOUBLE_EQ(value("fast_1", fast(1.01)), 1);
  EXPECT_DOUBLE_EQ(value("fast_1.2", fast(1.19)), 0.5);
  EXPECT_DOUBLE_EQ(value("fast_2", fast(2.01)), 1);
}

TEST(Rewards, AreOverThePeerThatIsAskedFor) {
  Verdict verdict = fast(2);
  verdict.speedups.push_back({.baseline = "naive", .shape = "s0", .ratio = {40, 41, 42}});
  EXPECT_DOUBLE_EQ(value("speedup", verdict), 3);
  EXPECT_DOUBLE_EQ(value("log_speedup", verdict, "naive"), 1 + std::log2(41));
  EXPECT_DOUBLE_EQ(value("speedup", verdict, "cudnn"), 1) << "correct, and not timed against this one";
}

TEST(Rewards, AShapeThatIsNotCoveredCountsAsThePeersOwnTime) {
  Verdict verdict = passed({{4, 4.1, 4.2}});
  EXPECT_DOUBLE_EQ(speedup_low(verdict, "cublas"), 4);
  verdict.uncovered = {"s1"};
  EXPECT_DOUBLE_EQ(speedup_low(verdict, "cublas"), 2);
}

TEST(Rewards, WithoutTheShareOfLaunchedKernelsOneOfThemIsNone) {
  Verdict verdict = fast(2);
  verdict.profile.clear();
  EXPECT_FALSE(find_reward("dr_kernel_profiled")->function(verdict, "cublas").ok());
  verdict.outcome = Outcome::kWrong;
  EXPECT_DOUBLE_EQ(value("dr_kernel_profiled", verdict), 0);
}

TEST(Rewards, AnUnknownNameSaysWhichThereAre) {
  const auto reward = find_reward("fame");
  ASSERT_FALSE(reward.ok());
  EXPECT_THAT(reward.error().hint, HasSubstr("correct, dr_kernel"));
}

}  // namespace
}  // namespace lathe
