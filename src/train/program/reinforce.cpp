#include "train/program/reinforce.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>
#include <vector>

#include "base/guard.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "model/checkpoint.h"
#include "rl/contenders.h"
#include "rl/run.h"
#include "train/lm_actor.h"
#include "train/lm_recipe.h"

namespace lathe::train {
namespace {

constexpr std::size_t kMostTableBytes = std::size_t{1} << 30;
constexpr const char* kLearned = "learned";

/// Everything that an actor is made of.
struct ActorSource {
  const rl::ScheduleTable& table;
  const LmRecipe& recipe;
  const Placement& placement;
};

/// With the weights from which training begins; `begin` names the adapter, if there is one.
Result<std::unique_ptr<LmActor>> make_actor(const ActorSource& source, const std::string& begin) {
  const LmRecipe& recipe = source.recipe;
  LATHE_TRY(OpenedModel opened, open_model({.model = recipe.model, .system = {}, .seed = recipe.rl.seed},
                                           source.placement.decoder));
  const auto learner = [&]() -> Result<Learner> {
    if (begin.empty()) return Learner::create(std::move(opened.decoder), recipe.adapter, recipe.rl.seed);
    LATHE_TRY(const lm::Adapter adapter, lm::read_adapter(begin));
    return Learner::create(std::move(opened.decoder), adapter);
  };
  LATHE_TRY(Learner made, learner());
  made.use(*source.placement.kernels);
  return LmActor::create(source.table, std::move(made), std::move(opened.coding),
                         {.tokens_at_once = recipe.tokens_at_once,
                          .answers_at_once = static_cast<std::int32_t>(recipe.answers_at_once),
                          .base_name = recipe.model});
}

/// What, beside the recipe's text, decides the weights that come out.
Result<Digest> digest_of_run(const LmRecipe& recipe, const std::string& recipe_text,
                             const Placement& placement) {
  Hasher hasher;
  hasher.add(recipe_text).add(recipe.rl.steps).add(static_cast<std::int64_t>(recipe.rl.seed));
  hasher.add(recipe.model).add(name_of(placement.decoder.precision));
  hasher.add(placement.decoder.device.str()).add(static_cast<std::int64_t>(at::get_num_threads()));
  std::error_code ignored;
  if (std::filesystem::exists(recipe.model, ignored)) {
    LATHE_TRY(const Checkpoint checkpoint, Checkpoint::open(recipe.model));
    LATHE_TRY(const Digest weights, lm::digest_of_weights(checkpoint));
    hasher.add(weights.hex());
  }
  if (!recipe.begin.empty()) {
    LATHE_TRY(const lm::Adapter adapter, lm::read_adapter(recipe.begin));
    hasher.add(lm::digest_with({}, adapter).hex());
  }
  return hasher.finish();
}

/// The controls, the model as it was, and what it became, on tasks that it was not trained on.
Status examine(const rl::TableExam& exam, const ActorSource& source, LmActor& learned,
               const std::string& folder) {
  std::vector<ContestSample> all = rl::contend_controls(exam);
  const auto add = [&](Result<std::vector<ContestSample>> samples) -> Status {
    if (!samples.ok()) return std::move(samples).error();
    all.insert(all.end(), samples->begin(), samples->end());
    return Ok{};
  };
  LATHE_CHECK_OK(add(rl::contend_without_repeats(exam, learned, kLearned)));
  LATHE_CHECK_OK(add(rl::contend(exam, learned, "learned_samples")));
  LATHE_CHECK_OK(add(rl::contend_in_evolution(exam, learned, "learned_in_evolve")));
  const std::string& begin = source.recipe.begin;
  for (const char* const before : {"base", "sft"}) {
    const bool tuned = before == std::string_view("sft");
    if (tuned && begin.empty()) continue;
    LATHE_TRY(const auto actor, make_actor(source, tuned ? begin : ""));
    LATHE_CHECK_OK(add(rl::contend_without_repeats(exam, *actor, before)));
    LATHE_CHECK_OK(add(rl::contend(exam, *actor, before + std::string("_samples"))));
  }
  LATHE_TRY(const std::string table, rl::write_standing(all, kLearned, folder));
  cli::print_block("", table);
  return Ok{};
}

/// A line a second, and those of the first and the last step.
class RlProgress {
 public:
  void operator()(const rl::StepMetrics& step) {
    const auto now = std::chrono::steady_clock::now();
    if (step.step > 1 && step.step < step.steps && now < next_) return;
    next_ = now + std::chrono::seconds(1);
    cli::print_error("{}  {:.2f} s\n", rl::progress_text(step), step.seconds);
  }

 private:
  std::chrono::steady_clock::time_point next_;
};

}  // namespace

Result<int> reinforce(const TrainOptions& options, const std::string& recipe_text) {
  LATHE_TRY(LmRecipe recipe, parse_lm_recipe(recipe_text, options.recipe));
  if (!options.model.empty()) recipe.model = options.model;
  if (!options.adapter.empty()) recipe.begin = options.adapter;
  if (options.steps > 0) recipe.rl.steps = options.steps;
  if (options.seed >= 0) recipe.rl.seed = static_cast<std::uint64_t>(options.seed);
  if (recipe.model.empty()) return invalid("the recipe names no model", "name one with --model");
  if (options.table.empty())
    return invalid("reinforcement learning needs a table",
                   "give --table with what lathe data table --language schedule wrote");
  LATHE_TRY(const std::string table_text, read_file(options.table, kMostTableBytes));
  const auto table = rl::parse_table(table_text);
  if (!table.ok()) return invalid(options.table + ": " + table.error().message, table.error().hint);
  std::error_code ignored;
  const bool begun = std::filesystem::exists(options.out + "/checkpoint.json", ignored);
  if (!options.resume && begun)
    return invalid(options.out + " holds a run already",
                   "continue it with --resume, or choose another --out");

  LATHE_TRY(const UniqueFd lock, lock_run(options.out));
  LATHE_TRY(const Placement placement, placement_of(options, recipe.precision));
  LATHE_TRY(recipe.rl.digest, digest_of_run(recipe, recipe_text, placement));
  const ActorSource source{*table, recipe, placement};
  LATHE_TRY(const auto actor, make_actor(source, recipe.begin));
  const auto held_out = rl::held_out_tasks(*table, recipe.rl.held_out);
  rl::RlRun run{.recipe = recipe.rl,
                .tasks = {},
                .gym = digest_of(table_text),
                .folder = options.out,
                .resume = options.resume && begun,
                .cancel = cancelled_by_signals(),
                .on_step = RlProgress()};
  for (std::size_t task = 0; task < table->tasks.size(); ++task)
    if (!std::ranges::binary_search(held_out, task)) run.tasks.push_back(task);
  cli::print_error("{} tasks to train on, {} held out, on {}; {} parameters to train, {} on {}\n",
                   run.tasks.size(), held_out.size(), table->device, actor->learner().parameters().count(),
                   name_of(placement.decoder.precision), placement.decoder.device.str());
  rl::TableGym gym(*table);
  LATHE_TRY(const rl::RlOutcome outcome, rl::run_rl(run, *actor, gym));
  if (outcome.cancelled) {
    cli::print_error("stopped after step {} of {}; go on with --resume\n", outcome.steps_done,
                     recipe.rl.steps);
    return static_cast<int>(cli::kInterrupted);
  }
  if (!held_out.empty())
    LATHE_CHECK_OK(examine({.table = *table,
                            .tasks = held_out,
                            .samples = recipe.rl.examined_samples,
                            .seed = Seed::from_number(recipe.rl.seed).derive("exam")},
                           source, *actor, options.out));
  cli::print("{}/{}\n", options.out, actor->learner().low_rank() ? "adapter" : "model");
  return static_cast<int>(cli::kSuccess);
}

}  // namespace lathe::train
