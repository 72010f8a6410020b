#include "train/lm_actor.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/fd.h"
#include "rl/run.h"
#include "tests/train/tiny_actor.h"

namespace lathe::train {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

std::unique_ptr<LmActor> actor_of(const rl::ScheduleTable& table, bool adapter, std::uint64_t seed = 1,
                                  const LmActorOptions& options = {}) {
  return tiny_actor(table_tasks(table), adapter, seed, options);
}

std::vector<rl::Prompt> some_prompts() {
  std::vector<rl::Prompt> prompts(24, {.task = 0});
  prompts.resize(40, {.task = 1});
  return prompts;
}

class LmActors : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Kinds, LmActors, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "adapter" : "whole"; });

TEST_P(LmActors, DrawRowsWithTheProbabilitiesThatTheyLearnWithBeforeAndAfterUpdates) {
  const rl::ScheduleTable table = written_table(2);
  const auto actor = actor_of(table, GetParam());
  const auto prompts = some_prompts();
  std::vector<std::vector<double>> before;
  for (std::uint64_t round = 0; round < 3; ++round) {
    const auto answers = actor->sample(prompts, Seed::from_number(round));
    ASSERT_TRUE(answers.ok()) << answers.error().to_string();
    const auto pairs = prompted(prompts, *answers);
    const auto learned = actor->log_probabilities(pairs);
    ASSERT_TRUE(learned.ok());
    for (std::size_t i = 0; i < answers->size(); ++i)
      EXPECT_NE(table.tasks[prompts[i].task].find((*answers)[i].text), nullptr);
    ASSERT_NO_FATAL_FAILURE(expect_drawn_with(*learned, *answers, 2e-5));
    EXPECT_NE(*learned, before);
    before = *learned;
    std::vector<std::vector<double>> gradient = *learned;
    for (auto& one : gradient) std::ranges::fill(one, -0.05);
    ASSERT_TRUE(actor->add_gradient(pairs, gradient, 0).ok());
    EXPECT_GT(*actor->update(0.02, 0), 0);
  }
}

TEST(LmActor, RowsShareAllProbability) {
  const rl::ScheduleTable table = written_table(1);
  const auto actor = actor_of(table, false);
  const TextCoding coding = byte_coding();
  const std::vector<rl::Prompt> prompts(table.tasks[0].rows().size());
  std::vector<rl::Answer> answers;
  for (const rl::TableRow& row : table.tasks[0].rows()) {
    rl::Answer& answer = answers.emplace_back();
    answer.tokens = coding.tokenizer->encode(row.schedule, SpecialTokens::kAsText);
    answer.tokens.push_back(256);
  }
  const auto known = *actor->log_probabilities(prompted(prompts, answers));
  double sum = 0;
  for (const auto& tokens : known) sum += std::exp(std::accumulate(tokens.begin(), tokens.end(), 0.0));
  EXPECT_NEAR(sum, 1, 1e-5);
}

/// Along the gradient a loss rises by the gradient's length.
TEST_P(LmActors, HaveTheGradientOfTheLoss) {
  const rl::ScheduleTable table = written_table(2);
  const auto actor = actor_of(table, GetParam(), 1, {.tokens_at_once = 300});  // several passes
  const auto prompts = some_prompts();
  const auto answers = *actor->sample(prompts, Seed::from_number(1));
  const auto pairs = prompted(prompts, answers);
  const auto weights = random_weights(answers);
  auto nothing = weights;
  for (auto& one : nothing) std::ranges::fill(one, 0);
  constexpr double kEntropy = 20;
  leave_the_beginning(*actor);
  const auto loss = [&] {
    const double sum = weighted_sum(*actor->log_probabilities(pairs), weights);
    return sum - kEntropy * *actor->add_gradient(pairs, nothing, 0);
  };
  const auto add_gradient = [&] { ASSERT_TRUE(actor->add_gradient(pairs, weights, kEntropy).ok()); };
  const Slope slope = slope_along_gradient(*actor, add_gradient, loss);
  ASSERT_GT(slope.norm, 0.1);
  EXPECT_NEAR(slope.measured, slope.norm, 0.02 * slope.norm);
}

TEST(LmActor, AnAnswerThatStandsTwiceCountsTwice) {
  const rl::ScheduleTable table = written_table(1);
  const auto actor = actor_of(table, false);
  const std::vector<rl::Prompt> prompts(3, {.task = 0});
  auto answers = *actor->sample(prompts, Seed::from_number(1));
  answers[1] = answers[0];
  const auto gradient_of = [&](const std::vector<double>& weights) {
    std::vector<std::vector<double>> all;
    for (std::size_t i = 0; i < answers.size(); ++i) all.emplace_back(answers[i].tokens.size(), weights[i]);
    EXPECT_TRUE(actor->add_gradient(prompted(prompts, answers), all, 0).ok());
    const at::Tensor gradient = actor->learner().parameters().gradients()[0].clone();
    EXPECT_TRUE(actor->update(0, 0).ok());
    return gradient;
  };
  EXPECT_LT(largest_difference(gradient_of({0.5, 1.5, 0}), gradient_of({2, 0, 0})), 1e-6);
  EXPECT_GT(largest_difference(gradient_of({0.5, 1.5, 0}), gradient_of({1.5, 0, 0})), 1e-3);
}

TEST_P(LmActors, RaiseTheRewardAndDoNotWhereRewardsAreShuffled) {
  const rl::ScheduleTable table = written_table(4);
  std::vector<double> gains[2];
  for (const bool shuffled : {false, true})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      rl::RlRecipe recipe = recipe_of(40, seed);
      recipe.learning_rate = GetParam() ? 5e-3 : 3e-3;
      recipe.shuffle_rewards = shuffled;
      const auto actor = actor_of(table, GetParam(), seed);
      rl::TableGym gym(table);
      const Ended ended = run(recipe, gym, *actor, {fresh_folder_of(GetParam() ? "learn_a" : "learn_w")});
      gains[shuffled].push_back(ended.gain());
      for (const rl::StepMetrics& step : ended.steps) EXPECT_LT(step.mismatch, 1e-4);
    }
  EXPECT_GT(*std::ranges::min_element(gains[0]), 0.1) << testing::PrintToString(gains[0]);
  EXPECT_LT(mean(gains[1]), 0.05) << testing::PrintToString(gains[1]);
}

TEST_P(LmActors, GoOnBitByBit) {
  const rl::ScheduleTable table = written_table(3);
  rl::RlRecipe recipe = recipe_of(6);
  recipe.updates = 2;
  recipe.entropy = 0.01;
  recipe.surrogate.kl = 0.1;
  const std::string kind = GetParam() ? "a" : "w";
  const std::string whole = fresh_folder_of("whole" + kind), parts = fresh_folder_of("parts" + kind);
  const auto once = actor_of(table, GetParam());
  rl::TableGym gym(table);
  run(recipe, gym, *once, {whole});
  for (const std::int64_t stop_after : {2, 3, -1}) {
    const auto part = actor_of(table, GetParam());
    const Ended ended = run(recipe, gym, *part, {parts, stop_after != 2, stop_after});
    EXPECT_EQ(ended.outcome.cancelled, stop_after > 0);
    if (stop_after > 0) continue;
    EXPECT_THAT(ended.steps, SizeIs(3));
    const auto a = once->learner().parameters().state(), b = part->learner().parameters().state();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
  }
  EXPECT_EQ(*read_file(parts + "/samples.jsonl"), *read_file(whole + "/samples.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(parts + (GetParam() ? "/adapter" : "/model")));
}

TEST_P(LmActors, KnowTheWeightsThatTheyBeganWith) {
  const rl::ScheduleTable table = written_table(2);
  const auto actor = actor_of(table, GetParam());
  leave_the_beginning(*actor);
  ASSERT_TRUE(actor->update(0, 0).ok());
  const auto prompts = some_prompts();
  const auto answers = *actor->sample(prompts, Seed::from_number(1));
  const auto pairs = prompted(prompts, answers);
  ASSERT_FALSE(actor->reference_log_probabilities(pairs).ok());
  ASSERT_TRUE(actor->keep_reference().ok());
  const auto before = *actor->log_probabilities(pairs);
  EXPECT_EQ(*actor->reference_log_probabilities(pairs), before);
  ASSERT_TRUE(actor->add_gradient(pairs, random_weights(answers), 0).ok());
  ASSERT_TRUE(actor->update(0.05, 0).ok());
  EXPECT_NE(*actor->log_probabilities(pairs), before);
  EXPECT_EQ(*actor->reference_log_probabilities(pairs), before);
}

TEST_P(LmActors, StayNearTheirReferenceWhereTheLossWantsIt) {
  const rl::ScheduleTable table = written_table(4);
  double kl[2] = {};
  for (const bool held : {false, true}) {
    rl::RlRecipe recipe = recipe_of(20);
    recipe.surrogate.kl = held ? 30 : 1e-9;
    const auto actor = actor_of(table, GetParam());
    rl::TableGym gym(table);
    const auto steps = run(recipe, gym, *actor, {fresh_folder_of("held")}).steps;
    EXPECT_EQ(steps.front().reference_kl, 0);
    kl[held] = steps.back().reference_kl;
  }
  EXPECT_LT(kl[1], 0.1 * kl[0]);
}

TEST(LmActor, ItsGreedyAnswerIsARow) {
  const rl::ScheduleTable table = written_table(1);
  const auto actor = actor_of(table, false);
  const auto answer = actor->greedy({.task = 0});
  ASSERT_TRUE(answer.ok()) << answer.error().to_string();
  EXPECT_NE(table.tasks[0].find(answer->text), nullptr);
  EXPECT_EQ(answer->text, actor->greedy({.task = 0})->text);
}

TEST(LmActor, RefusesWhatItCannotDo) {
  const rl::ScheduleTable silent = rl::made_up_table(1), table = written_table(1);
  auto learner = Learner::create(lm::Decoder::random(tiny_config(), {}, 1), std::nullopt, 1);
  const auto made = LmActor::create(table_tasks(silent), *std::move(learner), byte_coding(), {});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("no prompts"));
  const auto actor = actor_of(table, false);
  const std::vector<rl::Prompt> prompts = {{.task = 0, .shown = {std::make_shared<const Attempt>()}}};
  EXPECT_FALSE(actor->sample(prompts, {}).ok());
  EXPECT_FALSE(actor->restore(*actor_of(table, true)->save(fresh_folder_of("other")), "").ok());
  EXPECT_FALSE(actor->restore("no JSON", "").ok());
}

}  // namespace
}  // namespace lathe::train
