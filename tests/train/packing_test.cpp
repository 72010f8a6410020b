#include "train/packing.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/train/tiny.h"

namespace lathe::train {
namespace {

using testing::ElementsAre;

TEST(Shuffled, DependsOnSeedAndEpochAlone) {
  const auto order = shuffled(100, 1, 0);
  EXPECT_EQ(order, shuffled(100, 1, 0));
  EXPECT_NE(order, shuffled(100, 1, 1));
  EXPECT_NE(order, shuffled(100, 2, 0));
  auto sorted = order;
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(sorted[i], i);
}

TEST(Pack, PutsEveryExampleOnceIntoRowsThatAreNotTooLong) {
  Rng rng(Seed::from_number(3));
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < 1000; ++i) lengths.push_back(rng.between(1, 64));
  std::vector<int> seen(lengths.size());
  std::int64_t total = 0;
  const auto rows = pack(shuffled(lengths.size(), 1, 0), lengths, 64);
  for (const Row& row : rows) {
    std::int64_t length = 0;
    for (const std::size_t example : row) length += lengths[example], ++seen[example];
    EXPECT_LE(length, 64);
    total += length;
  }
  EXPECT_THAT(seen, testing::Each(1));
  EXPECT_GT(static_cast<double>(total) / static_cast<double>(64 * rows.size()), 0.9);
}

TEST(PlanSteps, CoversEachEpochAndNeverCrossesOne) {
  const std::vector<std::int64_t> lengths(10, 4);  // 5 rows of 8 tokens
  const auto plan = plan_steps(lengths, {.row_length = 8, .rows_per_step = 2, .epochs = 2, .seed = 1});
  ASSERT_EQ(plan.size(), 6u);
  EXPECT_THAT((std::vector{plan[0].epoch, plan[2].epoch, plan[3].epoch, plan[5].epoch}),
              ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(plan[2].rows.size(), 1u);
  EXPECT_NE(plan[0].rows, plan[3].rows);
  const auto longer = plan_steps(lengths, {.row_length = 8, .rows_per_step = 2, .steps = 4, .seed = 1});
  ASSERT_EQ(longer.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(longer[i].rows, plan[i].rows);
}

TEST(MakeBatch, PredictsAnswerTokensOfWeightAndRestartsPositions) {
  std::vector<Example> examples(2);
  examples[0] = {.prompt = {1, 2}, .answer = {3, 4, 5}, .weights = {1, 0, 0.5}, .log_probs = {-1, -2, -3}};
  examples[1] = {.prompt = {6}, .answer = {7}, .weights = {1}};
  const Batch batch = make_batch(examples, std::vector<Row>{{1, 0}});
  EXPECT_THAT(batch.tokens, ElementsAre(6, 7, 1, 2, 3, 4, 5));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 0, 1, 2, 3, 4));
  EXPECT_THAT(batch.bounds, ElementsAre(0, 2, 7));
  EXPECT_EQ(batch.longest, 5);
  EXPECT_THAT(batch.places, ElementsAre(0, 3, 5));
  EXPECT_THAT(batch.targets, ElementsAre(7, 3, 5));
  EXPECT_THAT(batch.weights, ElementsAre(1, 1, 0.5));
  EXPECT_TRUE(std::isnan(batch.log_probs[0]));
  EXPECT_EQ(batch.log_probs[2], -3);
}

}  // namespace
}  // namespace lathe::train
