#include "train/sft.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <barrier>
#include <filesystem>
#include <thread>

#include "tests/train/tiny.h"
#include "train/flops.h"

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

/// Two processes' meeting, in two threads.
class Pair {
 public:
  class Half final : public Reducer {
   public:
    Half(Pair& pair, int rank) : pair_(pair), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return 2; }
    Status sum(std::span<at::Tensor> tensors) override {
      const at::NoGradGuard no_grad;
      pair_.given_[rank_].assign(tensors.begin(), tensors.end());
      pair_.barrier_.arrive_and_wait();
      std::vector<at::Tensor> sums;
      for (std::size_t i = 0; i < tensors.size(); ++i)
        sums.push_back(pair_.given_[0][i] + pair_.given_[1][i]);
      pair_.barrier_.arrive_and_wait();
      for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(sums[i]);
      pair_.barrier_.arrive_and_wait();
      return Ok{};
    }

   private:
    Pair& pair_;
    int rank_;
  };

 private:
  std::vector<at::Tensor> given_[2];
  std::barrier<> barrier_{2};
};

TEST(Sft, TwoTrainAsOne) {
  const Dataset data = random_dataset(60, 1);
  SftRecipe recipe = tiny_recipe();
  recipe.steps = 3;
  recipe.learning_rate = 1e-3;
  SoloReducer alone;
  Learner single = tiny_learner(recipe);
  ASSERT_TRUE(
      run_sft({.recipe = recipe, .train = data, .folder = fresh_folder("single")}, single, alone).ok());

  Pair pair;
  std::vector<Learner> halves;
  for (int rank = 0; rank < 2; ++rank) halves.push_back(tiny_learner(recipe));
  const std::string folder = fresh_folder("pair");
  const auto train_half = [&](int rank) {
    Pair::Half reducer(pair, rank);
    EXPECT_TRUE(run_sft({.recipe = recipe, .train = data, .folder = folder}, halves[rank], reducer).ok());
  };
  std::thread other(train_half, 1);
  train_half(0);
  other.join();
  expect_equal_bits(numbers_of(halves[0]), numbers_of(halves[1]));
  EXPECT_NEAR(mean_loss(halves[0], data, 32, 4), mean_loss(single, data, 32, 4), 1e-4);
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
