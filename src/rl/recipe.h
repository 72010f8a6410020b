#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/result.h"
#include "reward/reward.h"
#include "rl/curriculum.h"
#include "rl/estimator.h"
#include "rl/filter.h"
#include "rl/schedule.h"
#include "rl/surrogate.h"

namespace lathe::rl {

/// What a run of reinforcement learning does: recipes/rl/*.toml (docs/rl.md).
struct RlRecipe {
  std::int64_t steps = 200;
  std::int64_t prompts = 16;   ///< of a step
  std::int64_t samples = 16;   ///< sequences of each prompt: a group
  std::int64_t turns = 1;      ///< of a sequence; a later one is told of the earlier ones' verdicts
  std::int64_t exemplars = 0;  ///< measured kernels of different scores in a first turn's prompt
  double tau = 0.25;           ///< temperature with which buckets of exemplars are drawn
  std::uint64_t seed = 1;

  Curriculum curriculum = *find_curriculum("uniform");
  CurriculumOptions curriculum_options;

  Reward reward = *find_reward("speedup");
  Estimator estimator = *find_estimator("trloo");
  double gamma = 1;
  std::int64_t smoothing_window = 0;  ///< rewards by which a reward is scaled; 0: it is taken as it is
  bool shuffle_rewards = false;       ///< a control that must learn nothing
  /// A control: a grader without defences says which answers are correct and how fast. The gym's
  /// verdicts are recorded all the same.
  bool paid_by_naive = false;

  bool reject_unlaunched = false;  ///< correct answers count with keep_probability()
  MismatchOptions mismatch;

  SurrogateOptions surrogate;
  LossMean loss_mean = LossMean::kTokens;
  double entropy = 0;
  std::int64_t updates = 1;  ///< of the weights by one step's answers, each by an equal share of them

  std::int64_t imitation_steps = 0;     ///< before the first step
  double imitation_temperature = 0.05;  ///< ChoiceActor::add_imitation_gradient

  double learning_rate = 3e-3;  ///< the highest
  Decay decay = Decay::kConstant;
  std::int64_t warmup = 0;  ///< steps
  double final_fraction = 0;
  double clip_norm = 1;
  /// Of reinforcement; imitation has its own.
  Schedule schedule() const { return {learning_rate, warmup, steps, decay, final_fraction}; }

  std::int64_t hidden = 32;       ///< of the network of choices
  double joint_temperature = 0;   ///< ChoiceActorOptions
  std::int64_t rollout_bits = 0;  ///< 0: rollouts are drawn with the weights that are trained

  double held_out = 0.25;              ///< share of tasks that are never trained on
  std::int64_t held_out_part = 0;      ///< which share of all
  std::int64_t examined_samples = 64;  ///< of each held-out task at the end
  std::int64_t checkpoint_every = 50;  ///< steps
  std::int64_t text_bytes = 0;  ///< of answers that samples.jsonl has of a step, each text once; 0: all

  /// Of all that decides the weights that come out, the gym apart.
  Digest digest;
};

/// Errors: kInvalid, with line and column.
Result<RlRecipe> parse_rl_recipe(std::string_view text, const std::string& file);

/// Whether a recipe's text is one of reinforcement learning: it has a table [rl].
bool is_rl_recipe(std::string_view text);
/// Whether it trains a language model: it has a table [model]. What the tables [model],
/// [adapter] and [kernels] say is for lathe-torch (train/lm_recipe.h).
bool names_language_model(std::string_view text);

}  // namespace lathe::rl
