#include "rl/filter.h"

#include <gmock/gmock.h>

#include <cmath>

namespace lathe::rl {
namespace {

using testing::ElementsAre;

/// Three answers of two sequences: the first's two turns differ by ratios whose product is 1.
struct Answers {
  std::vector<std::vector<double>> rollout = {{-1, -1}, {-1, -1}, {-2, -2}};
  std::vector<std::vector<double>> train = {{-1 + std::log(1.01), -1}, {-1 - std::log(1.01), -1}, {-2, -2}};

  std::vector<Mismatch> all() const {
    return {{0, rollout[0], train[0]}, {0, rollout[1], train[1]}, {1, rollout[2], train[2]}};
  }
  std::vector<std::vector<bool>> kept(RejectionScope scope) const {
    return reject_mismatch(all(), {.scope = scope});
  }
};

const std::vector<bool> kNone = {false, false}, kAll = {true, true};

TEST(RejectMismatch, JudgesTokensTurnsOrTrajectoriesByTheirGeometricMean) {
  const Answers answers;
  EXPECT_THAT(answers.kept(RejectionScope::kNone), ElementsAre(kAll, kAll, kAll));
  EXPECT_THAT(answers.kept(RejectionScope::kToken),
              ElementsAre(std::vector<bool>{false, true}, std::vector<bool>{false, true}, kAll));
  EXPECT_THAT(answers.kept(RejectionScope::kTurn), ElementsAre(kNone, kNone, kAll));
  EXPECT_THAT(answers.kept(RejectionScope::kTrajectory), ElementsAre(kAll, kAll, kAll));
}

TEST(RejectMismatch, OneTokenThatTrainingFindsImpossibleCostsItsAnswer) {
  Answers answers;
  answers.train[0] = {-1 - std::log(2e4), -1 + std::log(2e4)};  // the mean ratio is 1
  EXPECT_THAT(answers.kept(RejectionScope::kTurn)[0], kNone);
  EXPECT_THAT(answers.kept(RejectionScope::kToken)[0], kNone);
  EXPECT_THAT(answers.kept(RejectionScope::kTrajectory), ElementsAre(kNone, kNone, kAll));
}

TEST(RejectMismatch, KeepsTheEndsOfItsRange) {
  Answers answers;
  answers.train[2] = {-2 + std::log(1.0009), -2 + std::log(1.0009)};
  EXPECT_THAT(answers.kept(RejectionScope::kTurn)[2], kAll);
  answers.train[2] = {-2 + std::log(1.0011), -2 + std::log(1.0011)};
  EXPECT_THAT(answers.kept(RejectionScope::kTurn)[2], kNone);
  answers.train[2] = {-2 + std::log(0.9989), -2 + std::log(0.9989)};
  EXPECT_THAT(answers.kept(RejectionScope::kTurn)[2], kNone);
}

TEST(MeasureMismatch, IsZeroForEqualProbabilities) {
  const std::vector<double> same = {-1, -3};
  const std::vector<Mismatch> answers = {{0, same, same}};
  const MismatchReport report = measure_mismatch(answers);
  EXPECT_EQ(report.mean_absolute, 0);
  EXPECT_EQ(report.kl, 0);
  EXPECT_EQ(report.least_ratio, 1);
}

TEST(MeasureMismatch, IsOverAllTokens) {
  const Answers answers;
  const MismatchReport report = measure_mismatch(answers.all());
  EXPECT_NEAR(report.mean_absolute, 2 * std::log(1.01) / 6, 1e-12);
  EXPECT_NEAR(report.least_ratio, 1 / 1.01, 1e-12);
  EXPECT_GT(report.kl, 0);
}

TEST(KeepProbability, RisesOverATenthFromThree) {
  EXPECT_EQ(keep_probability(0), 0);
  EXPECT_EQ(keep_probability(0.3), 0);
  EXPECT_NEAR(keep_probability(0.35), 0.5, 1e-12);
  EXPECT_EQ(keep_probability(0.4), 1);
  EXPECT_EQ(keep_probability(1), 1);
}

TEST(RewardSmoother, MeasuresRewardsByTheLatest) {
  RewardSmoother smooth(3);
  EXPECT_EQ(smooth(5), 0);
  EXPECT_EQ(smooth(5), 0);
  EXPECT_NEAR(smooth(8), 2 / std::sqrt(3.0), 1e-12);  // 5 5 8: mean 6, deviation sqrt(3)
  EXPECT_THAT(smooth.latest(), ElementsAre(5, 5, 8));
  smooth(8);
  EXPECT_THAT(smooth.latest(), ElementsAre(5, 8, 8));
}

TEST(RewardSmoother, AnOutlierCountsOneAndAHalfDeviations) {
  RewardSmoother smooth(1000);
  for (int i = 0; i < 100; ++i) smooth(i % 2);
  EXPECT_EQ(smooth(1000), 1.5);
}

TEST(ParseRejectionScope, KnowsItsNames) {
  EXPECT_EQ(*parse_rejection_scope("turn"), RejectionScope::kTurn);
  EXPECT_FALSE(parse_rejection_scope("batch").ok());
}

}  // namespace
}  // namespace lathe::rl
