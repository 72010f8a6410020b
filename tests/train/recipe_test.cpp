#include "train/recipe.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/fd.h"

namespace lathe::train {
namespace {

using testing::HasSubstr;

TEST(SftRecipe, ReadsEveryTable) {
  const auto recipe = parse_sft_recipe(R"(
[model]
path = "m.gguf"
precision = "bf16"
[data]
train = "t.jsonl"
held_out = "h.jsonl"
chat = false
[adapter]
rank = 8
alpha = 16
dropout = 0.1
targets = ["q_proj", "down_proj"]
[steps]
row_tokens = 512
rows = 6
rows_at_once = 2
epochs = 3
seed = 4
[optimizer]
learning_rate = 2e-4
warmup_fraction = 0.1
decay = "constant"
weight_decay = 0.01
clip_norm = 0.5
[output]
checkpoint_every = 7
evaluate_every = 0
)",
                                       "r.toml");
  ASSERT_TRUE(recipe.ok()) << recipe.error().to_string();
  EXPECT_EQ(recipe->model, "m.gguf");
  EXPECT_EQ(recipe->precision, lm::Precision::kBF16);
  EXPECT_FALSE(recipe->chat);
  ASSERT_TRUE(recipe->adapter);
  EXPECT_EQ(recipe->adapter->rank, 8);
  EXPECT_THAT(recipe->adapter->targets, testing::ElementsAre("q_proj", "down_proj"));
  EXPECT_EQ(recipe->rows_at_once, 2);
  EXPECT_EQ(recipe->decay, rl::Decay::kConstant);
  EXPECT_EQ(recipe->optimizer.weight_decay, 0.01);
  EXPECT_EQ(recipe->checkpoint_every, 7);
}

struct Wrong {
  const char* text;
  int line, column;
  const char* says;
};
class WrongRecipe : public testing::TestWithParam<Wrong> {};

TEST_P(WrongRecipe, IsRefusedWithItsPlace) {
  const auto recipe = parse_sft_recipe(GetParam().text, "r.toml");
  ASSERT_FALSE(recipe.ok());
  EXPECT_THAT(recipe.error().to_string(), HasSubstr(GetParam().says));
  EXPECT_EQ(recipe.error().where.line, GetParam().line) << recipe.error().to_string();
  EXPECT_EQ(recipe.error().where.column, GetParam().column) << recipe.error().to_string();
}

INSTANTIATE_TEST_SUITE_P(SftRecipe, WrongRecipe,
                         testing::Values(Wrong{"[steps]\nrows = 0", 2, 8, "'rows' is no whole number from 1"},
                                         Wrong{"[steps]\nrow = 1", 2, 1, "'row'"},
                                         Wrong{"[optimiser]\n", 1, 2, "optimiser"},
                                         Wrong{"[steps]\nrows = 2\nrows_at_once = 3", 3, 16, "rows_at_once"},
                                         Wrong{"[optimizer]\nlearning_rate = 11", 2, 17, "learning_rate"},
                                         Wrong{"[optimizer]\ndecay = \"linear\"", 2, 9, "linear"},
                                         Wrong{"[adapter]\ntargets = [\"w1\"]", 2, 11, "'w1'"},
                                         Wrong{"[model]\nprecision = \"f16\"", 2, 13, "f16"}));

TEST(SftRecipe, TheDigestTellsRunsApart) {
  const SftRecipe recipe = parse_sft_recipe("", "r.toml").value();
  SftRecipe other = recipe;
  other.checkpoint_every = 1;
  EXPECT_EQ(recipe.digest(), other.digest());
  other.learning_rate *= 2;
  EXPECT_NE(recipe.digest(), other.digest());
}

TEST(SftRecipe, ThoseThatShipParse) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(LATHE_SOURCE_DIR "/recipes/sft")) {
    if (file.path().extension() != ".toml") continue;
    const auto recipe = parse_sft_recipe(read_file(file.path()).value(), file.path());
    EXPECT_TRUE(recipe.ok()) << recipe.error().to_string();
    ++count;
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace lathe::train
