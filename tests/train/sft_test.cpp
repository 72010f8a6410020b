#include "train/sft.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <thread>

#include "tests/train/linked.h"
#include "tests/train/tiny.h"
#include "train/flops.h"
#include "train/links.h"

namespace lathe::train {
namespace {

SftRecipe tiny_recipe() {
  SftRecipe recipe;
  recipe.row_tokens = 32;
  recipe.rows = 4;
  recipe.rows_at_once = 2;
  recipe.steps = 8;
  recipe.learning_rate = 1e-2;
  recipe.checkpoint_every = 3;
  return recipe;
}

Learner tiny_learner(const SftRecipe& recipe, lm::Precision precision = lm::Precision::kF32) {
  return Learner::create(tiny_decoder(precision), recipe.adapter, recipe.seed).value();
}

std::string fresh_folder(const std::string& name) {
  const std::string folder = testing::TempDir() + "sft_" + name;
  std::filesystem::remove_all(folder);
  return folder;
}

std::vector<at::Tensor> numbers_of(const Learner& learner) {
  std::vector<at::Tensor> numbers;
  for (const auto& [name, tensor] : learner.parameters().state()) numbers.push_back(tensor.clone());
  return numbers;
}

void expect_equal_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << i;
}

struct Kind {
  const char* name;
  bool adapter;
  lm::Precision precision;
};
class EveryKind : public testing::TestWithParam<Kind> {
 protected:
  SftRecipe recipe() const {
    SftRecipe recipe = tiny_recipe();
    if (GetParam().adapter)
      recipe.adapter =
          LowRankOptions{.rank = 4, .alpha = 8, .dropout = 0.1, .targets = {"q_proj", "up_proj", "o_proj"}};
    return recipe;
  }
};

TEST_P(EveryKind, ResumesBitByBit) {
  const Dataset data = random_dataset(60, 1);
  const SftRecipe recipe = this->recipe();
  SoloReducer alone;
  Learner whole = tiny_learner(recipe, GetParam().precision);
  const std::string whole_folder = fresh_folder("whole");
  ASSERT_TRUE(run_sft({.recipe = recipe, .train = data, .folder = whole_folder}, whole, alone).ok());

  const std::string folder = fresh_folder("parts");
  for (const int stop_after : {2, 5, 100}) {
    Learner part = tiny_learner(recipe, GetParam().precision);
    const CancelToken cancel;
    const SftRun run{.recipe = recipe,
                     .train = data,
                     .folder = folder,
                     .resume = true,
                     .cancel = cancel,
                     .on_step = [&](const StepMetrics& step) {
                       if (step.step == stop_after) cancel.cancel();
                     }};
    const auto outcome = run_sft(run, part, alone);
    ASSERT_TRUE(outcome.ok()) << outcome.error().to_string();
    EXPECT_EQ(outcome->steps_done, std::min(stop_after, 8));
    EXPECT_EQ(outcome->cancelled, stop_after < 8);
    if (!outcome->cancelled) expect_equal_bits(numbers_of(part), numbers_of(whole));
  }
}

TEST_P(EveryKind, LossFalls) {
  SftRecipe recipe = this->recipe();
  recipe.steps = 40;
  const Dataset data = random_dataset(6, 1);
  SoloReducer alone;
  Learner learner = tiny_learner(recipe, GetParam().precision);
  const double before = mean_loss(learner, data, recipe.row_tokens, 4);
  const auto outcome =
      run_sft({.recipe = recipe, .train = data, .folder = fresh_folder("falls")}, learner, alone);
  ASSERT_TRUE(outcome.ok()) << outcome.error().to_string();
  // An adapter leaves the small random embeddings as they are, which bound its logits.
  EXPECT_LT(mean_loss(learner, data, recipe.row_tokens, 4), (recipe.adapter ? 0.98 : 0.9) * before);
}

INSTANTIATE_TEST_SUITE_P(Sft, EveryKind,
                         testing::Values(Kind{"whole", false, lm::Precision::kF32},
                                         Kind{"adapter", true, lm::Precision::kF32},
                                         Kind{"bf16", false, lm::Precision::kBF16}),
                         [](const auto& kind) { return kind.param.name; });

TEST(Sft, OverfitsAFewExamples) {
  SftRecipe recipe = tiny_recipe();
  recipe.steps = 150;
  const Dataset data = random_dataset(6, 1);
  SoloReducer alone;
  Learner learner = tiny_learner(recipe);
  ASSERT_TRUE(
      run_sft({.recipe = recipe, .train = data, .folder = fresh_folder("overfit")}, learner, alone).ok());
  EXPECT_LT(mean_loss(learner, data, recipe.row_tokens, 4), 0.1);
}

TEST(Sft, HowAStepIsCutUpChangesRoundingOnly) {
  const Dataset data = random_dataset(60, 1);
  const auto trained = [&](std::int64_t at_once) {
    SftRecipe recipe = tiny_recipe();
    recipe.rows_at_once = at_once;
    recipe.steps = 2;
    recipe.learning_rate = 1e-3;
    SoloReducer alone;
    Learner learner = tiny_learner(recipe);
    EXPECT_TRUE(
        run_sft({.recipe = recipe, .train = data, .folder = fresh_folder("cut")}, learner, alone).ok());
    return mean_loss(learner, data, recipe.row_tokens, 4);
  };
  EXPECT_NEAR(trained(1), trained(4), 1e-4);
}

TEST(Sft, RefusesTheCheckpointOfAnotherRun) {
  const Dataset data = random_dataset(60, 1), others = random_dataset(60, 2);
  SftRecipe recipe = tiny_recipe();
  SoloReducer alone;
  const std::string folder = fresh_folder("other");
  Learner learner = tiny_learner(recipe);
  ASSERT_TRUE(run_sft({.recipe = recipe, .train = data, .folder = folder}, learner, alone).ok());
  const auto resumed =
      run_sft({.recipe = recipe, .train = others, .folder = folder, .resume = true}, learner, alone);
  ASSERT_FALSE(resumed.ok());
  EXPECT_THAT(resumed.error().to_string(), testing::HasSubstr("other data"));
}

/// Trains in several threads as processes do.
struct Several {
  std::vector<Learner> learners;
  std::vector<Result<SftOutcome>> outcomes;

  Several(const SftRun& run, int size, lm::Precision precision = lm::Precision::kF32) {
    const std::vector<Links> links = linked(size);
    for (int rank = 0; rank < size; ++rank) {
      learners.push_back(tiny_learner(run.recipe, precision));
      outcomes.emplace_back(SftOutcome{});
    }
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < links.size(); ++rank)
      threads.emplace_back([&, rank] {
        SftRun mine = run;
        if (rank > 0) mine.cancel = {}, mine.on_step = {}, mine.on_evaluation = {};
        LinkReducer reducer(links[rank]);
        outcomes[rank] = run_sft(mine, learners[rank], reducer);
      });
    for (std::thread& thread : threads) thread.join();
    for (const auto& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome.error().to_string();
  }
};

SftRecipe gentle_recipe() {
  SftRecipe recipe = tiny_recipe();
  recipe.rows = 5;
  recipe.steps = 4;
  recipe.learning_rate = 1e-3;
  return recipe;
}

TEST_P(EveryKind, SeveralTrainAsOne) {
  const Dataset data = random_dataset(60, 1), held_out = random_dataset(20, 2);
  SftRecipe recipe = gentle_recipe();
  recipe.adapter = this->recipe().adapter;
  if (recipe.adapter) recipe.adapter->dropout = 0;  // what it drops depends on the passes
  const lm::Precision precision = GetParam().precision;
  SoloReducer alone;
  Learner single = tiny_learner(recipe, precision);
  const auto expected =
      run_sft({.recipe = recipe, .train = data, .held_out = &held_out, .folder = fresh_folder("single")},
              single, alone);
  ASSERT_TRUE(expected.ok());
  for (const int size : {2, 7}) {
    const Several several(
        {.recipe = recipe, .train = data, .held_out = &held_out, .folder = fresh_folder("several")}, size,
        precision);
    const bool is_f32 = precision == lm::Precision::kF32;
    for (std::size_t rank = 0; rank < several.learners.size(); ++rank) {
      EXPECT_EQ(several.outcomes[rank]->steps_done, expected->steps_done);
      EXPECT_NEAR(several.outcomes[rank]->last_loss, expected->last_loss, is_f32 ? 1e-5 : 1e-2);
      EXPECT_NEAR(several.outcomes[rank]->held_out_loss, expected->held_out_loss, is_f32 ? 1e-5 : 1e-2);
      expect_equal_bits(numbers_of(several.learners[rank]), numbers_of(several.learners[0]));
    }
    const auto numbers = numbers_of(several.learners[0]), whole = numbers_of(single);
    if (!is_f32) continue;
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_LT(largest_difference(numbers[i], whole[i]), 1e-4);
  }
}

TEST_P(EveryKind, SeveralStopTogetherAndResumeBitByBit) {
  const Dataset data = random_dataset(60, 1);
  const SftRecipe recipe = this->recipe();
  const Several whole({.recipe = recipe, .train = data, .folder = fresh_folder("whole")}, 2,
                      GetParam().precision);
  const std::string folder = fresh_folder("parts");
  for (const int stop_after : {2, 5, 100}) {
    const CancelToken cancel;
    const Several parts({.recipe = recipe,
                         .train = data,
                         .folder = folder,
                         .resume = true,
                         .cancel = cancel,
                         .on_step =
                             [&](const StepMetrics& step) {
                               if (step.step == stop_after) cancel.cancel();
                             }},
                        2, GetParam().precision);
    for (const auto& outcome : parts.outcomes) EXPECT_EQ(outcome->steps_done, std::min(stop_after, 8));
    if (stop_after > 8)
      for (const Learner& learner : parts.learners)
        expect_equal_bits(numbers_of(learner), numbers_of(whole.learners[0]));
  }
}

TEST(Sft, TellsThatProcessesAreNotTheSame) {
  const Dataset data = random_dataset(60, 1), others = random_dataset(60, 2);
  const SftRecipe recipe = tiny_recipe();
  for (const bool other_data : {true, false}) {
    const std::vector<Links> links = linked(2);
    Learner first = tiny_learner(recipe), second = tiny_learner(recipe);
    {
      const at::NoGradGuard no_grad;
      if (!other_data) second.parameters().state()[0].second.view({-1})[5] = 1.0;
    }
    const std::string folder = fresh_folder("unlike");
    const auto failed = [&](Learner& learner, const Dataset& seen, int rank) {
      LinkReducer reducer(links[static_cast<std::size_t>(rank)]);
      const auto outcome = run_sft({.recipe = recipe, .train = seen, .folder = folder}, learner, reducer);
      EXPECT_FALSE(outcome.ok());
      if (!outcome.ok()) {
        EXPECT_THAT(outcome.error().message, testing::HasSubstr(other_data ? "data" : "weights"));
      }
    };
    std::thread other([&] { failed(second, other_data ? others : data, 1); });
    failed(first, data, 0);
    other.join();
  }
}

TEST(TrainingFlops, CountsEachProductThreeTimes) {
  const std::vector<Example> examples = {{.prompt = {1}, .answer = {2, 3}, .weights = {1, 1}}};
  const Batch batch = make_batch(examples, std::vector<Row>{{0}});
  const ModelConfig config = tiny_config();
  const double layer = 2.0 * 3 * 32 * (32 + 16 + 16 + 32 + 3 * 48) + 2.0 * 2 * 32 * 6;
  EXPECT_DOUBLE_EQ(training_flops(config, batch), 3 * (2 * layer + 2.0 * 2 * 32 * 64));
}

}  // namespace
}  // namespace lathe::train
