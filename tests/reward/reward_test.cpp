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
  verdict.text_bytes = 4096;
  verdict.evidence.cases = {{.shape = "s0", .worst_ratio = 0.1}, {.shape = "hidden", .worst_ratio = 0.4}};
  for (std::size_t i = 0; i < shapes.size(); ++i)
    verdict.speedups.push_back(
        {.baseline = "cublas", .shape = "s" + std::to_string(i), .ratio = shapes[i], .roof = 5});
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

TEST_P(EveryReward, OfAKernelThatWasBuiltAloneIsNone) {
  Verdict built = fast(2);
  built.depth = Depth::kBuild;
  const auto reward = GetParam().function(built, "cublas");
  ASSERT_FALSE(reward.ok());
  EXPECT_EQ(reward.error().code, ErrorCode::kUnavailable);
  built.outcome = Outcome::kBuildFailed;
  EXPECT_EQ(value(built), 0);
}

TEST_P(EveryReward, NeverFallsWhenTheLowerBoundRises) {
  Rng rng(Seed::from_number(7));
  for (int i = 0; i < 2000; ++i) {
    const double low = std::exp(4 * rng.normal()), higher = low * (1 + rng.uniform());
    EXPECT_LE(value(fast(low)), value(fast(higher))) << low << " " << higher;
  }
}

/// A kernel with anything that a verdict may say.
Verdict generated(Rng& rng) {
  std::vector<Interval> shapes;
  for (std::uint64_t i = 0; i < 1 + rng.below(4); ++i) {
    const double mid = std::exp(2 * rng.normal());
    shapes.push_back({mid * (1 - 0.5 * rng.uniform()), mid, mid * (1 + rng.uniform())});
  }
  Verdict verdict = passed(std::move(shapes));
  verdict.profile["launched_share"] = rng.uniform();
  verdict.text_bytes = 1 + static_cast<std::int64_t>(rng.below(40'000));
  for (CaseEvidence& one : verdict.evidence.cases) one.worst_ratio = rng.uniform();
  for (Speedup& speedup : verdict.speedups) {
    speedup.roof = std::exp(3 * rng.normal());
    if (verdict.speedups.size() > 1 && rng.chance(0.2)) verdict.uncovered = {speedup.shape};
  }
  return verdict;
}

TEST_P(EveryReward, NeverFallsWhereTheLowerBoundAtAnyShapeRises) {
  Rng rng(Seed::from_number(11));
  for (int i = 0; i < 5000; ++i) {
    Verdict verdict = generated(rng);
    const double before = value(verdict);
    EXPECT_GT(before, 0);
    Interval& ratio = verdict.speedups[rng.below(verdict.speedups.size())].ratio;
    ratio.low += rng.uniform() * (ratio.mid - ratio.low);
    EXPECT_GE(value(verdict), before - 1e-12) << i;
    verdict.outcome = Outcome::kWrong;
    EXPECT_EQ(value(verdict), 0);
  }
}

TEST_P(EveryReward, OfAllThatAVerdictMaySayWantsOnlyWhatItNames) {
  Verdict bare = fast(2);
  bare.profile.clear(), bare.evidence.cases.clear(), bare.text_bytes = 0;
  for (Speedup& speedup : bare.speedups) speedup.roof = 0;
  const auto reward = GetParam().function(bare, "cublas");
  EXPECT_EQ(reward.ok(), GetParam().needs.empty());
  if (!reward.ok()) {
    EXPECT_EQ(reward.error().code, ErrorCode::kUnavailable);
  }
  bare.outcome = Outcome::kCrash;
  EXPECT_EQ(value(bare), 0) << "a failure needs nothing";
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
  EXPECT_DOUBLE_EQ(value("roofline", fast(2)), 1 + 2.0 / 5);
  EXPECT_DOUBLE_EQ(value("roofline", fast(7)), 2) << "peaks are measured, and may be too low";
  EXPECT_DOUBLE_EQ(value("cuda_l2", fast(2)), 3 - 0.25 * 0.4 - 0.25 * 0.25);
  EXPECT_DOUBLE_EQ(value("cuda_l2", fast(9)), 4 - 0.25 * 0.4 - 0.25 * 0.25);
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

TEST(Rewards, TheRoofIsThatOfAllShapesWhereverAKernelIsUsed) {
  Verdict verdict = passed({{2, 2, 2}, {1, 1, 1}});
  verdict.speedups[0].roof = 2, verdict.speedups[1].roof = 32;
  const double whole = value("roofline", verdict);
  EXPECT_DOUBLE_EQ(whole, 1 + std::sqrt(2) / 8);
  verdict.uncovered = {"s1"};  // where the peer runs in its place
  EXPECT_DOUBLE_EQ(value("roofline", verdict), whole);
}

TEST(Rewards, OfCudaL2PreferTheMoreExactAndTheShorterOfEquallyFastKernels) {
  Verdict verdict = fast(2);
  const double before = value("cuda_l2", verdict);
  verdict.text_bytes *= 2;
  const double longer = value("cuda_l2", verdict);
  EXPECT_LT(longer, before);
  verdict.evidence.cases[0].worst_ratio = 0.9;
  EXPECT_LT(value("cuda_l2", verdict), longer);
  verdict.text_bytes = 1 << 20, verdict.evidence.cases[0].worst_ratio = 1;
  EXPECT_GE(value("cuda_l2", verdict), 2.5) << "what that costs has a bound";
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
  EXPECT_THAT(reward.error().hint, HasSubstr("correct, cuda_l2, dr_kernel"));
}

}  // namespace
}  // namespace lathe
