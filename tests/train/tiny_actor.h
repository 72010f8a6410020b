#pragma once

#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>

#include "rl/run.h"
#include "tests/record/json_lines.h"
#include "tests/train/tiny.h"
#include "tests/train/written_table.h"
#include "train/lm_actor.h"

namespace lathe::train {

/// An actor of a few thousand weights whose tokens are bytes; with an adapter, that alone learns.
inline std::unique_ptr<LmActor> tiny_actor(std::shared_ptr<const LmTasks> tasks, bool adapter,
                                           std::uint64_t seed = 1, const LmActorOptions& options = {}) {
  ModelConfig config = tiny_config();
  config.vocab = kByteModelVocab;
  std::optional<LowRankOptions> pairs;
  if (adapter) {
    pairs = {.rank = 8, .alpha = 32};
    for (const auto& matrix : lm::adaptable_matrices(config)) pairs->targets.emplace_back(matrix.name);
  }
  lm::Decoder decoder = lm::Decoder::random(config, {}, seed);
  // An adapter leaves embeddings as they are, and small ones bound the logits.
  for (const auto& [name, tensor] : decoder.named_weights())
    if (name == "model.embed_tokens.weight") at::Tensor(tensor).mul_(8);
  auto learner = Learner::create(std::move(decoder), pairs, seed);
  return *LmActor::create(std::move(tasks), *std::move(learner), byte_coding(), options);
}

inline std::vector<rl::PromptedAnswer> prompted(const std::vector<rl::Prompt>& prompts,
                                                const std::vector<rl::Answer>& answers) {
  std::vector<rl::PromptedAnswer> all;
  for (std::size_t i = 0; i < answers.size(); ++i) all.push_back({&prompts[i], &answers[i]});
  return all;
}

/// What a loss may weigh each token of the answers with.
inline std::vector<std::vector<double>> random_weights(const std::vector<rl::Answer>& answers) {
  Rng rng(Seed::from_number(2));
  std::vector<std::vector<double>> weights;
  for (const rl::Answer& answer : answers)
    for (weights.emplace_back(); weights.back().size() < answer.tokens.size();)
      weights.back().push_back(rng.normal());
  return weights;
}

inline double weighted_sum(const std::vector<std::vector<double>>& logs,
                           const std::vector<std::vector<double>>& weights) {
  double sum = 0;
  for (std::size_t a = 0; a < logs.size(); ++a)
    sum += std::inner_product(logs[a].begin(), logs[a].end(), weights[a].begin(), 0.0);
  return sum;
}

inline void expect_drawn_with(const std::vector<std::vector<double>>& learned,
                              const std::vector<rl::Answer>& answers, double tolerance) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ASSERT_EQ(answers[i].log_probabilities.size(), learned[i].size());
    for (std::size_t t = 0; t < answers[i].tokens.size(); ++t)
      EXPECT_NEAR(answers[i].log_probabilities[t], learned[i][t], tolerance);
  }
}

inline std::string fresh_folder_of(const std::string& name) {
  const std::string folder = testing::TempDir() + "lm_actor_" + std::to_string(::getpid()) + "_" + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

inline rl::RlRecipe recipe_of(std::int64_t steps, std::uint64_t seed = 1) {
  rl::RlRecipe recipe;
  recipe.steps = steps;
  recipe.prompts = 4;
  recipe.samples = 8;
  recipe.learning_rate = 3e-3;
  recipe.seed = seed;
  return recipe;
}

struct Ended {
  std::vector<rl::StepMetrics> steps;
  rl::RlOutcome outcome;

  double gain() const {  ///< mean reward of the last ten steps over that of the first five
    double first = 0, last = 0;
    for (std::size_t i = 0; i < 5; ++i) first += steps[i].reward / 5;
    for (std::size_t i = steps.size() - 10; i < steps.size(); ++i) last += steps[i].reward / 10;
    return last - first;
  }
};

struct RunOptions {
  std::string folder;
  bool resume = false;
  std::int64_t cancel_after = -1;  ///< steps
  CancelToken cancel = {};
};
/// On all tasks of the gym.
inline Ended run(const rl::RlRecipe& recipe, rl::Gym& gym, LmActor& actor, const RunOptions& options) {
  Ended ended;
  rl::RlRun run{.recipe = recipe,
                .tasks = {},
                .folder = options.folder,
                .resume = options.resume,
                .cancel = options.cancel};
  run.tasks.resize(gym.tasks());
  std::iota(run.tasks.begin(), run.tasks.end(), std::size_t{0});
  run.on_step = [&](const rl::StepMetrics& step) {
    ended.steps.push_back(step);
    if (step.step == options.cancel_after) options.cancel.cancel();
  };
  const auto outcome = rl::run_rl(run, actor, gym);
  EXPECT_TRUE(outcome.ok()) << outcome.error().to_string();
  if (outcome.ok()) ended.outcome = *outcome;
  return ended;
}

/// Moves an adapter away from its beginning, where one half is zero and the other has no gradient.
inline void leave_the_beginning(LmActor& actor) {
  for (const auto& [name, tensor] : actor.learner().parameters().state())
    if (name.ends_with("master")) {
      const at::NoGradGuard no_grad;
      at::Tensor(tensor).add_(at::ones_like(tensor), 0.02);
    }
}

/// The slope of `loss` along the gradient that `add_gradient` makes, by finite differences, and the
/// gradient's length, which it should be.
struct Slope {
  double measured = 0, norm = 0;
};
inline Slope slope_along_gradient(LmActor& actor, const std::function<void()>& add_gradient,
                                  const std::function<double()>& loss) {
  constexpr double kStep = 1e-3;
  add_gradient();
  std::vector<at::Tensor> slopes;
  double squares = 0;
  for (const at::Tensor& gradient : actor.learner().parameters().gradients()) {
    slopes.push_back(gradient.clone());
    squares += gradient.square().sum().item<double>();
  }
  const double norm = std::sqrt(squares);
  const auto loss_at = [&](double distance) {
    const at::NoGradGuard no_grad;
    std::size_t i = 0;
    for (const auto& [name, tensor] : actor.learner().parameters().state())
      if (name.ends_with("master")) at::Tensor(tensor).add_(slopes[i++], distance / norm);
    EXPECT_TRUE(actor.update(0, 0).ok());  // forgets what was computed, and moves nothing
    return loss();
  };
  const double above = loss_at(kStep), below = loss_at(-2 * kStep);
  return {(above - below) / (2 * kStep), norm};
}

}  // namespace lathe::train
