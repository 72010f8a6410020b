#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <numeric>

#include "search/contrast.h"
#include "search/refine.h"
#include "search/strategy.h"
#include "tests/gym/fake_task.h"
#include "tests/search/ladder_policy.h"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Answers nothing; strategies only look at whether it varies kernels.
class Mute final : public Policy {
 public:
  std::string name() const override { return "mute"; }
  ProposalTicket ask(ProposalRequest) override { return 0; }
  std::optional<Proposed> poll(double) override { return std::nullopt; }
};

class StrategiesTest : public testing::Test {
 protected:
  /// An evaluation that passed with this speedup over "naive"; 0: it failed.
  void add(double speedup, std::int64_t branch, std::int64_t turn, const std::string& text = "") {
    Experience e;
    e.candidate_text = text.empty() ? "kernel " + std::to_string(archive_.all().size()) : text;
    e.candidate = digest_of(e.candidate_text);
    e.lineage.branch = branch;
    e.lineage.turn = turn;
    e.verdict.outcome = speedup > 0 ? Outcome::kPass : Outcome::kWrong;
    e.verdict.depth = Depth::kScreen;
    if (speedup > 0) e.verdict.speedups = {{"naive", "s", {speedup, speedup, speedup}}};
    archive_.add(std::move(e), {});
  }
  Step next(Strategy& strategy, std::vector<UnderWay> under_way = {}, int room = 1000) {
    Rng rng(Seed::from_number(draws_++));
    auto step = strategy.next({context_, policy_, archive_, std::move(under_way), room}, rng);
    EXPECT_TRUE(step.ok());
    return *std::move(step);
  }

  const PolicyContext context_{shared_twice_task(), {}, {}};
  Mute policy_;
  Archive archive_{"naive"};
  std::uint64_t draws_ = 0;
};

using SurveyTest = StrategiesTest;

TEST_F(SurveyTest, TakesThePolicysOwnFirstAnswerAndThenIndependentDraws) {
  const auto survey = *make_strategy("survey");
  EXPECT_FALSE(next(*survey).ask->independent);
  EXPECT_TRUE(next(*survey, {{0, 0}}).ask->independent);
  add(1, 0, 0);
  EXPECT_TRUE(next(*survey).ask->independent);
}

class VaryTest : public StrategiesTest {
 protected:
  Step next_of_ladder(std::vector<UnderWay> under_way = {}) {
    Rng rng(Seed::from_number(draws_++));
    auto step = vary_->next({context_, *ladder_, archive_, std::move(under_way), 1000}, rng);
    EXPECT_TRUE(step.ok());
    return *std::move(step);
  }

  const std::unique_ptr<Policy> ladder_ = make_ladder(4);
  const std::unique_ptr<Strategy> vary_ = *make_strategy("vary");
};

TEST_F(VaryTest, WaitsForThePolicysOwnFirstAnswerBeforeItChangesIt) {
  EXPECT_FALSE(next_of_ladder().ask->independent);
  EXPECT_TRUE(next_of_ladder({{0, 0}}).wait);
}

TEST_F(VaryTest, MakesOneToThreeChangesOfTheFirstAnswerAndSomeFreshDraws) {
  add(1, 0, 0, Ladder::text(10));
  add(5, 0, 0, Ladder::text(20));
  std::map<int, int> rungs;
  for (int i = 0; i < 400; ++i) {
    const Step step = next_of_ladder();
    if (step.ask) {
      EXPECT_TRUE(step.ask->independent);
      ++rungs[0];
      continue;
    }
    ASSERT_EQ(step.proposals.size(), 1U);
    EXPECT_THAT(step.proposals[0].lineage.parents, ElementsAre(digest_of(Ladder::text(10))));
    ++rungs[Ladder::rung_of(step.proposals[0].text)];
  }
  ASSERT_EQ(rungs.size(), 4U) << "a fresh draw, 11, 12 and 13";
  for (const auto& [rung, times] : rungs) EXPECT_NEAR(times, 100, 35) << rung;
}

TEST_F(VaryTest, NeedsAPolicyThatCanVary) {
  EXPECT_TRUE(vary_->accept(*ladder_).ok());
  EXPECT_FALSE(vary_->accept(policy_).ok());
}

using RefineTest = StrategiesTest;

TEST_F(RefineTest, BeginsWithSamplesOfOnePrompt) {
  const auto refine = *make_refine({.turns = 2, .branches = 3});
  const Step step = next(*refine);
  ASSERT_TRUE(step.ask.has_value());
  EXPECT_EQ(step.ask->count, 3);
  EXPECT_TRUE(step.ask->independent);
  EXPECT_THAT(step.ask->branches, ElementsAre(0, 1, 2));
  EXPECT_EQ(step.ask->group, 0);
}

TEST_F(RefineTest, ABranchGoesOnAsSoonAsItsVerdictIsThere) {
  const auto refine = *make_refine({.turns = 3, .branches = 2});
  add(0, 1, 0);
  const Step step = next(*refine, {{0, 0}});
  ASSERT_TRUE(step.ask.has_value());
  EXPECT_THAT(step.ask->branches, ElementsAre(1));
  EXPECT_EQ(step.ask->turn, 1);
  EXPECT_EQ(step.ask->use, HistoryUse::kConversation);
  ASSERT_EQ(step.ask->shown->size(), 1u);
  EXPECT_TRUE(next(*refine, {{0, 0}, {1, 1}}).wait);
}

TEST_F(RefineTest, AsksForJustTheTurnsThatAreMissing) {
  const auto refine = *make_refine({.turns = 2, .branches = 4});
  add(1, 0, 0);
  add(1, 0, 1);
  add(1, 2, 0);
  add(1, 2, 1);
  const Step step = next(*refine);
  ASSERT_TRUE(step.ask.has_value());
  EXPECT_THAT(step.ask->branches, ElementsAre(1, 3));
  EXPECT_EQ(step.ask->turn, 0);
}

TEST_F(RefineTest, ThenTheNextConversationsBegin) {
  const auto refine = *make_refine({.turns = 1, .branches = 2});
  add(1, 0, 0);
  EXPECT_TRUE(next(*refine, {{1, 0}}).wait);
  add(0, 1, 0);
  const Step step = next(*refine);
  EXPECT_THAT(step.ask->branches, ElementsAre(2, 3));
  EXPECT_EQ(step.ask->group, 1);
}

TEST_F(RefineTest, ATurnSeesItsOwnConversationAlone) {
  const auto refine = *make_refine({.turns = 9, .branches = 2, .best_of_history = true});
  add(1, 0, 0);
  add(2, 1, 0);
  add(3, 0, 1);
  const Step step = next(*refine, {{1, 1}});
  ASSERT_EQ(step.ask->shown->size(), 2u);
  EXPECT_DOUBLE_EQ(step.ask->shown->at(1)->fitness, 3);
  EXPECT_EQ(step.ask->use, HistoryUse::kBest);
}

TEST_F(RefineTest, AsksForNoMoreThanTheBudgetHasRoomFor) {
  const auto refine = *make_refine({.turns = 2, .branches = 8});
  EXPECT_EQ(next(*refine, {}, 3).ask->count, 3);
}

TEST_F(RefineTest, VariesTheTurnBeforeWhereThePolicyCan) {
  const auto refine = *make_refine({.turns = 2, .branches = 1});
  const auto ladder = make_ladder(2);
  add(1, 0, 0, Ladder::text(4));
  Rng rng(Seed::from_number(1));
  const auto step = refine->next({context_, *ladder, archive_, {}, 100}, rng);
  ASSERT_TRUE(step.ok());
  ASSERT_EQ(step->proposals.size(), 1u);
  EXPECT_EQ(step->proposals[0].text, Ladder::text(5));
  EXPECT_EQ(step->proposals[0].lineage.branch, 0);
  EXPECT_EQ(step->proposals[0].lineage.turn, 1);
}

TEST_F(RefineTest, RefusesWhatIsNoConversation) {
  EXPECT_FALSE(make_refine({.turns = 0}).ok());
  EXPECT_FALSE(make_refine({.branches = 0}).ok());
}

using ContrastTest = StrategiesTest;

TEST_F(ContrastTest, KernelsOfSimilarScoreShareABucketAndFailuresHaveNone) {
  add(1.01, 0, 0);
  add(1.02, 0, 0);
  add(2.0, 0, 0);
  add(0, 0, 0);
  add(2.0, 0, 0, "kernel 2");
  const auto buckets = score_buckets(archive_.all(), 0.1);
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0].kernels.size(), 2u);
  EXPECT_EQ(buckets[1].kernels.size(), 1u) << "each candidate once";
  EXPECT_NEAR(buckets[1].mean, std::log(2.0), 1e-12);
}

/// Chi-squared of counts against expected shares.
double chi_squared(const std::vector<int>& counts, const std::vector<double>& shares) {
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    sum += std::pow(counts[i] - all * shares[i], 2) / (all * shares[i]);
  return sum;
}

TEST_F(ContrastTest, BucketsAreDrawnByTheirScoresAndKernelsUniformly) {
  for (const double speedup : {1.0, 1.01, 1.3, 2.0, 2.01, 2.02, 4.0}) add(speedup, 0, 0);
  ContrastOptions options{.exemplars = 1, .tau = 0.5};
  const auto buckets = score_buckets(archive_.all(), options.bucket_width);
  std::vector<double> shares;
  double sum = 0;
  for (const Bucket& bucket : buckets) sum += std::exp(bucket.mean / options.tau);
  for (const Bucket& bucket : buckets)
    for (std::size_t i = 0; i < bucket.kernels.size(); ++i)
      shares.push_back(std::exp(bucket.mean / options.tau) / sum /
                       static_cast<double>(bucket.kernels.size()));
  std::map<double, int> drawn;
  Rng rng(Seed::from_number(7));
  for (int i = 0; i < 20'000; ++i) ++drawn[draw_exemplars(buckets, options, rng).at(0)->fitness];
  std::vector<int> counts;
  for (const auto& [fitness, count] : drawn) counts.push_back(count);
  ASSERT_EQ(counts.size(), shares.size()) << "every kernel is drawn at times";
  EXPECT_LT(chi_squared(counts, shares), 22.5) << "6 degrees of freedom: 0.1% of fair samplers exceed it";
}

TEST_F(ContrastTest, TwoExemplarsAreOfDistinctBucketsDrawnWithoutReplacement) {
  for (const double speedup : {1.0, 2.0, 4.0}) add(speedup, 0, 0);
  const ContrastOptions options{.exemplars = 2, .tau = 1};
  const auto buckets = score_buckets(archive_.all(), options.bucket_width);
  const std::vector<double> p = {1.0 / 7, 2.0 / 7, 4.0 / 7};  // exp(log(s)/1) = s
  const auto pair = [&](std::size_t a, std::size_t b) {
    return p[a] * p[b] / (1 - p[a]) + p[b] * p[a] / (1 - p[b]);
  };
  std::map<std::pair<double, double>, int> drawn;
  Rng rng(Seed::from_number(8));
  for (int i = 0; i < 20'000; ++i) {
    const History exemplars = draw_exemplars(buckets, options, rng);
    ASSERT_EQ(exemplars.size(), 2u);
    ASSERT_LT(exemplars[0]->fitness, exemplars[1]->fitness);
    ++drawn[{exemplars[0]->fitness, exemplars[1]->fitness}];
  }
  const std::vector<int> counts = {drawn[{1, 2}], drawn[{1, 4}], drawn[{2, 4}]};
  EXPECT_LT(chi_squared(counts, {pair(0, 1), pair(0, 2), pair(1, 2)}), 13.8) << "2 degrees, 0.1%";
}

TEST_F(ContrastTest, ExtremeScoresOverflowNothing) {
  add(1e-300, 0, 0);
  add(1e300, 0, 0);
  ContrastOptions options{.exemplars = 5, .tau = 1e-3};
  Rng rng(Seed::from_number(9));
  EXPECT_EQ(draw_exemplars(score_buckets(archive_.all(), 0.1), options, rng).size(), 2u);
  EXPECT_THAT(draw_exemplars({}, options, rng), IsEmpty());
}

TEST_F(ContrastTest, WithoutAKernelThatPassesItAsksAfresh) {
  const auto contrast = *make_contrast({.samples = 3});
  add(0, 0, 0);
  const Step step = next(*contrast);
  EXPECT_TRUE(step.ask->independent);
  EXPECT_EQ(step.ask->count, 3);
}

TEST_F(ContrastTest, AsksForSamplesOfOnePromptWithExemplars) {
  const auto contrast = *make_contrast({.samples = 2});
  add(1, 0, 0);
  add(3, 0, 0);
  const Step step = next(*contrast, {{0, 4}});
  EXPECT_EQ(step.ask->use, HistoryUse::kExemplars);
  EXPECT_EQ(step.ask->shown->size(), 2u);
  EXPECT_EQ(step.ask->group, 5) << "no batch shares its group with another, also under way";
  EXPECT_THAT(step.ask->branches, ElementsAre(0, 0));
}

TEST_F(ContrastTest, IslandsKnowTheirOwnKernelsUntilTheBestMigrates) {
  const auto contrast = *make_contrast({.exemplars = 9, .samples = 1, .islands = 2, .migrate_every = 4});
  add(8, 0, 0);
  add(1, 1, 1);
  add(2, 1, 3);
  Step step = next(*contrast, {{0, 4}});
  EXPECT_THAT(step.ask->branches, ElementsAre(1));
  EXPECT_EQ(step.ask->shown->size(), 2u) << "8x lives on the other island";
  add(3, 0, 4);
  step = next(*contrast);
  EXPECT_THAT(step.ask->branches, ElementsAre(1));
  ASSERT_EQ(step.ask->shown->size(), 3u);
  EXPECT_DOUBLE_EQ(step.ask->shown->back()->fitness, 8);
}

TEST_F(ContrastTest, RefusesWhatDrawsNothing) {
  EXPECT_FALSE(make_contrast({.exemplars = 0}).ok());
  EXPECT_FALSE(make_contrast({.tau = 0}).ok());
  EXPECT_FALSE(make_contrast({.tau = std::nan("")}).ok());
}

}  // namespace
}  // namespace lathe
