#include "rl/recipe.h"

#include <fmt/format.h>

#include "task/toml_section.h"

namespace lathe::rl {
namespace {

constexpr std::int64_t kMostCount = 1'000'000'000;

template <class Number>
Status read_seed(const TomlSection& section, Number& seed) {
  auto number = static_cast<std::int64_t>(seed);
  LATHE_CHECK_OK(section.read("seed", number, 0, INT64_MAX));
  seed = static_cast<Number>(number);
  return Ok{};
}

/// The named thing that `find` finds, with the place where its name stands.
template <class Thing, class Find>
Status read_named(const TomlSection& section, const char* key, Thing& to, Find find) {
  std::string name;
  LATHE_CHECK_OK(section.read(key, name));
  if (name.empty()) return Ok{};
  auto found = find(name);
  if (!found.ok()) return invalid(found.error().message, found.error().hint, section.table().where(key));
  to = *found;
  return Ok{};
}

Status read_imitation(const TomlTable& root, RlRecipe& recipe) {
  LATHE_TRY(const TomlSection imitation, TomlSection::open(root, "imitation", {"steps", "temperature"}));
  LATHE_CHECK_OK(imitation.read("steps", recipe.imitation_steps, 0, kMostCount));
  return imitation.read("temperature", recipe.imitation_temperature, 1e-6, 1e6);
}

Status read_rl(const TomlTable& root, RlRecipe& recipe) {
  LATHE_TRY(const TomlSection rl,
            TomlSection::open(root, "rl",
                              {"steps", "prompts", "samples", "turns", "exemplars", "tau", "seed", "reward",
                               "estimator", "gamma", "smoothing_window", "shuffle_rewards", "curriculum"}));
  LATHE_CHECK_OK(rl.read("steps", recipe.steps, recipe.imitation_steps > 0 ? 0 : 1, kMostCount));
  LATHE_CHECK_OK(rl.read("prompts", recipe.prompts, 1, 1 << 20));
  LATHE_CHECK_OK(rl.read("samples", recipe.samples, 1, 1 << 20));
  LATHE_CHECK_OK(rl.read("turns", recipe.turns, 1, 64));
  LATHE_CHECK_OK(rl.read("exemplars", recipe.exemplars, 0, 8));
  LATHE_CHECK_OK(rl.read("tau", recipe.tau, 1e-6, 1e6));
  LATHE_CHECK_OK(read_seed(rl, recipe.seed));
  LATHE_CHECK_OK(read_named(rl, "reward", recipe.reward, find_reward));
  LATHE_CHECK_OK(read_named(rl, "curriculum", recipe.curriculum, find_curriculum));
  LATHE_CHECK_OK(read_named(rl, "estimator", recipe.estimator, find_estimator));
  LATHE_CHECK_OK(rl.read("gamma", recipe.gamma, 0, 1));
  LATHE_CHECK_OK(rl.read("smoothing_window", recipe.smoothing_window, 0, 1 << 24));
  return rl.read("shuffle_rewards", recipe.shuffle_rewards);
}

Status read_curriculum(const TomlTable& root, RlRecipe& recipe) {
  LATHE_TRY(const TomlSection curriculum,
            TomlSection::open(root, "curriculum", {"window", "floor", "threshold"}));
  LATHE_CHECK_OK(curriculum.read("window", recipe.curriculum_options.window, 1, 1 << 16));
  LATHE_CHECK_OK(curriculum.read("floor", recipe.curriculum_options.floor, 1e-6, 1));
  return curriculum.read("threshold", recipe.curriculum_options.threshold, 0, 1);
}

Status read_filters(const TomlTable& root, RlRecipe& recipe) {
  LATHE_TRY(const TomlSection filters,
            TomlSection::open(root, "filters", {"reject_unlaunched", "mismatch", "low", "high", "veto"}));
  LATHE_CHECK_OK(filters.read("reject_unlaunched", recipe.reject_unlaunched));
  LATHE_CHECK_OK(read_named(filters, "mismatch", recipe.mismatch.scope, parse_rejection_scope));
  LATHE_CHECK_OK(filters.read("low", recipe.mismatch.low, 0, 1));
  LATHE_CHECK_OK(filters.read("high", recipe.mismatch.high, 1, 1e9));
  return filters.read("veto", recipe.mismatch.veto, 0, 1);
}

Status read_loss(const TomlTable& root, RlRecipe& recipe) {
  LATHE_TRY(const TomlSection loss,
            TomlSection::open(root, "loss",
                              {"clip_low", "clip_high", "dual_clip", "kl", "entropy", "mean", "updates"}));
  LATHE_CHECK_OK(loss.read("clip_low", recipe.surrogate.clip_low, 0, 1));
  LATHE_CHECK_OK(loss.read("clip_high", recipe.surrogate.clip_high, 0, 1e9));
  LATHE_CHECK_OK(loss.read("dual_clip", recipe.surrogate.dual_clip, 0, 1e9));
  if (recipe.surrogate.dual_clip > 0 && recipe.surrogate.dual_clip <= 1)
    return invalid("'dual_clip' is neither 0 nor above 1", {}, loss.table().where("dual_clip"));
  LATHE_CHECK_OK(loss.read("kl", recipe.surrogate.kl, 0, 1e6));
  LATHE_CHECK_OK(loss.read("entropy", recipe.entropy, 0, 1e6));
  LATHE_CHECK_OK(loss.read("updates", recipe.updates, 1, 1 << 16));
  if (!loss.present()) return Ok{};
  LATHE_TRY(const std::string mean, loss.table().choice("mean", {"tokens", "sequences"}));
  recipe.loss_mean = mean == "tokens" ? LossMean::kTokens : LossMean::kSequences;
  return Ok{};
}

bool has_table(std::string_view text, const char* table) {
  const auto document = TomlDocument::parse(text, {});
  return document.ok() && document->root().has(table);
}

Status read_rest(const TomlTable& root, RlRecipe& recipe) {
  LATHE_TRY(const TomlSection optimizer,
            TomlSection::open(root, "optimizer",
                              {"learning_rate", "schedule", "warmup", "final_fraction", "clip_norm"}));
  LATHE_CHECK_OK(optimizer.read("learning_rate", recipe.learning_rate, 0, 10));
  LATHE_CHECK_OK(read_named(optimizer, "schedule", recipe.decay, parse_decay));
  LATHE_CHECK_OK(optimizer.read("warmup", recipe.warmup, 0, kMostCount));
  LATHE_CHECK_OK(optimizer.read("final_fraction", recipe.final_fraction, 0, 1));
  LATHE_CHECK_OK(optimizer.read("clip_norm", recipe.clip_norm, 0, 1e9));
  LATHE_TRY(const TomlSection actor,
            TomlSection::open(root, "actor", {"hidden", "rollout_bits", "joint_temperature"}));
  LATHE_CHECK_OK(actor.read("hidden", recipe.hidden, 1, 4096));
  LATHE_CHECK_OK(actor.read("joint_temperature", recipe.joint_temperature, 0, 1e6));
  LATHE_CHECK_OK(actor.read("rollout_bits", recipe.rollout_bits, 0, 16));
  if (recipe.rollout_bits == 1)
    return invalid("'rollout_bits' is 1, which leaves every weight 0", "0 for none, or 2 to 16");
  LATHE_TRY(const TomlSection exam, TomlSection::open(root, "exam", {"held_out", "part", "samples"}));
  LATHE_CHECK_OK(exam.read("held_out", recipe.held_out, 0, 0.9));
  LATHE_CHECK_OK(exam.read("part", recipe.held_out_part, 0, 1 << 16));
  LATHE_CHECK_OK(exam.read("samples", recipe.examined_samples, 1, 1 << 16));
  LATHE_TRY(const TomlSection output, TomlSection::open(root, "output", {"checkpoint_every", "text_bytes"}));
  LATHE_CHECK_OK(output.read("text_bytes", recipe.text_bytes, 0, std::int64_t{1} << 40));
  return output.read("checkpoint_every", recipe.checkpoint_every, 1, kMostCount);
}

}  // namespace

Result<RlRecipe> parse_rl_recipe(std::string_view text, const std::string& file) {
  LATHE_TRY(const TomlDocument document, TomlDocument::parse(text, {file, 0, 0}));
  const TomlTable root = document.root();
  LATHE_CHECK_OK(root.allow_only({"rl", "curriculum", "filters", "loss", "optimizer", "imitation", "actor",
                                  "exam", "output", "model", "adapter", "kernels"},
                                 "a recipe"));
  RlRecipe recipe;
  for (const auto read : {read_imitation, read_rl, read_curriculum, read_filters, read_loss, read_rest})
    LATHE_CHECK_OK(read(root, recipe));
  recipe.digest = digest_of(text);
  return recipe;
}

bool is_rl_recipe(std::string_view text) { return has_table(text, "rl"); }

bool names_language_model(std::string_view text) { return has_table(text, "model"); }

}  // namespace lathe::rl
