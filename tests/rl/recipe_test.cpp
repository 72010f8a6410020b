#include "rl/recipe.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/fd.h"

namespace lathe::rl {
namespace {

using testing::HasSubstr;

TEST(ParseRlRecipe, ReadsWhatItSays) {
  const auto recipe = parse_rl_recipe(R"TOML(
[rl]
steps = 7
turns = 3
estimator = "grpo"
reward = "dr_kernel"
curriculum = "stages"
[curriculum]
window = 5
threshold = 0.5
[filters]
mismatch = "trajectory"
[loss]
mean = "sequences"
dual_clip = 0
kl = 0.05
[optimizer]
learning_rate = 0.5
schedule = "linear"
warmup = 2
final_fraction = 0.1
[actor]
rollout_bits = 5
)TOML",
                                      "r.toml");
  ASSERT_TRUE(recipe.ok()) << recipe.error().to_string();
  EXPECT_EQ(recipe->steps, 7);
  EXPECT_EQ(recipe->turns, 3);
  EXPECT_EQ(recipe->estimator.name, "grpo");
  EXPECT_EQ(recipe->reward.name, "dr_kernel");
  EXPECT_EQ(recipe->mismatch.scope, RejectionScope::kTrajectory);
  EXPECT_EQ(recipe->loss_mean, LossMean::kSequences);
  EXPECT_EQ(recipe->surrogate.dual_clip, 0);
  EXPECT_EQ(recipe->curriculum.name, "stages");
  EXPECT_EQ(recipe->curriculum_options.window, 5);
  EXPECT_EQ(recipe->curriculum_options.threshold, 0.5);
  EXPECT_EQ(recipe->surrogate.kl, 0.05);
  const Schedule rate = recipe->schedule();
  EXPECT_EQ(rate.decay, Decay::kLinear);
  EXPECT_DOUBLE_EQ(rate.at(2), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(7), 0.05);
  EXPECT_EQ(recipe->rollout_bits, 5);
}

TEST(ParseRlRecipe, NamesPlaceAndRemedy) {
  const auto error_of = [](const char* text) {
    const auto recipe = parse_rl_recipe(text, "r.toml");
    return recipe.ok() ? std::string("none") : recipe.error().to_string();
  };
  EXPECT_THAT(error_of("[rl]\nestimator = \"ppo\"\n"),
              testing::AllOf(HasSubstr("r.toml:2"), HasSubstr("trloo")));
  EXPECT_THAT(error_of("[rl]\nstepps = 3\n"), testing::AllOf(HasSubstr("r.toml:2"), HasSubstr("steps")));
  EXPECT_THAT(error_of("[rl]\nsteps = 0\n"), HasSubstr("r.toml:2"));
  EXPECT_EQ(error_of("[rl]\nsteps = 0\n[imitation]\nsteps = 3\n"), "none");
  EXPECT_THAT(error_of("[loss]\ndual_clip = 0.5\n"), HasSubstr("dual_clip"));
  EXPECT_THAT(error_of("[optimizer]\nschedule = \"steep\"\n"),
              testing::AllOf(HasSubstr("r.toml:2"), HasSubstr("linear")));
  EXPECT_THAT(error_of("[rl]\ncurriculum = \"hard\"\n"),
              testing::AllOf(HasSubstr("r.toml:2"), HasSubstr("pass_rate")));
  EXPECT_THAT(error_of("[loss]\nkl = -1\n"), HasSubstr("r.toml:2"));
  EXPECT_THAT(error_of("[actor]\nrollout_bits = 1\n"), HasSubstr("rollout_bits"));
  EXPECT_THAT(error_of("[rl\n"), HasSubstr("r.toml:1"));
}

TEST(IsRlRecipe, TellsItFromASupervisedOne) {
  EXPECT_TRUE(is_rl_recipe("[rl]\n"));
  EXPECT_FALSE(is_rl_recipe("[steps]\nrows = 2\n"));
  EXPECT_FALSE(is_rl_recipe("[rl"));
}

TEST(NamesLanguageModel, TellsWhoseTheRecipeIs) {
  EXPECT_TRUE(names_language_model("[rl]\n[model]\npath = \"m\"\n"));
  EXPECT_FALSE(names_language_model("[rl]\n[actor]\n"));
  EXPECT_TRUE(parse_rl_recipe("[rl]\n[model]\npath = \"m\"\n[adapter]\n", "r.toml").ok());
}

TEST(ShippedRecipes, AreReadable) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LATHE_SOURCE_DIR "/recipes/rl")) {
    const auto text = read_file(entry.path());
    ASSERT_TRUE(text.ok());
    const auto recipe = parse_rl_recipe(*text, entry.path());
    EXPECT_TRUE(recipe.ok()) << recipe.error().to_string();
    ++count;
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace lathe::rl
