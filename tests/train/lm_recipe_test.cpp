#include "train/lm_recipe.h"

#include <gmock/gmock.h>

#include "base/fd.h"

namespace lathe::train {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

std::string refusal_of(const std::string& text) {
  const auto recipe = parse_lm_recipe(text, "rl.toml");
  return recipe.ok() ? "none" : recipe.error().to_string();
}

TEST(LmRecipe, ReadsTheOneThatIsShipped) {
  const std::string path = LATHE_SOURCE_DIR "/recipes/rl/lm_schedule.toml";
  const std::string text = *read_file(path);
  EXPECT_TRUE(rl::names_language_model(text));
  const auto recipe = parse_lm_recipe(text, path);
  ASSERT_TRUE(recipe.ok()) << recipe.error().to_string();
  EXPECT_EQ(recipe->rl.samples, 16);
  ASSERT_TRUE(recipe->adapter);
  EXPECT_THAT(recipe->adapter->targets, SizeIs(7));
}

TEST(LmRecipe, ReadsTheOneOfKernelsThatIsShipped) {
  const std::string path = LATHE_SOURCE_DIR "/recipes/rl/lm_kernel.toml";
  const auto recipe = parse_lm_recipe(*read_file(path), path);
  ASSERT_TRUE(recipe.ok()) << recipe.error().to_string();
  ASSERT_TRUE(recipe->kernels);
  EXPECT_EQ(recipe->kernels->answer_tokens, 4096);
  EXPECT_EQ(recipe->rl.text_bytes, 1'000'000);
  EXPECT_EQ(recipe->adapter->bits, 16);
}

TEST(LmRecipe, ANaiveGraderMayBeAskedOrPay) {
  for (const char* naive : {"off", "asked", "pays"}) {
    const auto recipe =
        parse_lm_recipe(std::string("[rl]\n[model]\n[kernels]\nnaive = \"") + naive + "\"\n", "rl.toml");
    ASSERT_TRUE(recipe.ok()) << recipe.error().to_string();
    EXPECT_EQ(recipe->kernels->naive_asked, naive != std::string("off"));
    EXPECT_EQ(recipe->rl.paid_by_naive, naive == std::string("pays"));
  }
}

TEST(LmRecipe, KernelsMayHaveTurnsAndNeitherAnEntropyNorAnExamOnATable) {
  EXPECT_EQ(refusal_of("[rl]\nturns = 3\n[model]\n[kernels]\n"), "none");
  EXPECT_THAT(refusal_of("[rl]\n[model]\n[kernels]\n[loss]\nmean = \"tokens\"\nentropy = 0.1\n"),
              HasSubstr("entropy"));
  EXPECT_THAT(refusal_of("[rl]\n[model]\n[kernels]\n[exam]\nsamples = 4\n"), HasSubstr("policy eval"));
  EXPECT_THAT(refusal_of("[rl]\n[model]\n[kernels]\nanswers = 4\n"), HasSubstr("answers"));
  EXPECT_THAT(refusal_of("[rl]\n[model]\n[kernels]\nnaive = \"yes\"\n"), HasSubstr("off, asked, pays"));
  EXPECT_THAT(refusal_of("[rl]\nexemplars = 2\n[model]\n[kernels]\n"), HasSubstr("exemplars"));
}

TEST(LmRecipe, WhatNoLiveGymMeasuresIsRefusedForKernels) {
  for (const char* kernels : {"", "[kernels]\n"}) {
    const bool live = *kernels != 0;
    const std::string rest = std::string("[model]\n") + kernels;
    EXPECT_EQ(refusal_of("[rl]\n" + rest + "[filters]\nreject_unlaunched = true\n") != "none", live);
    EXPECT_EQ(refusal_of("[rl]\nreward = \"dr_kernel_profiled\"\n" + rest) != "none", live);
    for (const std::string reward : {"cuda_l2", "roofline"})
      EXPECT_EQ(refusal_of("[rl]\nreward = \"" + reward + "\"\n" + rest) == "none", live) << reward;
  }
}

TEST(LmRecipe, WithoutAnAdapterAllWeightsAreTrained) {
  const auto recipe = parse_lm_recipe("[rl]\n[model]\nprecision = \"bf16\"\nbegin = \"a\"\n", "rl.toml");
  ASSERT_TRUE(recipe.ok()) << recipe.error().to_string();
  EXPECT_FALSE(recipe->adapter);
  EXPECT_EQ(recipe->precision, lm::Precision::kBF16);
  EXPECT_EQ(recipe->begin, "a");
}

TEST(LmRecipe, NamesWhatALanguageModelCannotDo) {
  EXPECT_THAT(refusal_of("[rl]\n[model]\n[actor]\nhidden = 3\n"), HasSubstr("rl.toml:3"));
  EXPECT_THAT(refusal_of("[rl]\nturns = 2\n[model]\n"), HasSubstr("turns = 1"));
  EXPECT_THAT(refusal_of("[rl]\nexemplars = 2\n[model]\n"), HasSubstr("exemplars"));
  EXPECT_THAT(refusal_of("[rl]\n[model]\n[adapter]\ndropout = 0.1\n"), HasSubstr("dropout"));
  EXPECT_THAT(refusal_of("[rl]\n[model]\ntemperature = 2\n"), HasSubstr("temperature"));
}

}  // namespace
}  // namespace lathe::train
