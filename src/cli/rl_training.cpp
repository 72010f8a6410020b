#include "cli/rl_training.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>

#include "base/fd.h"
#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/options.h"
#include "cli/run_plan.h"
#include "cli/session.h"
#include "rl/choice_actor.h"
#include "rl/contenders.h"
#include "rl/imitation.h"
#include "rl/run.h"

namespace lathe::cli {
namespace {

constexpr std::size_t kMostRecipeBytes = 1 << 20, kMostTableBytes = std::size_t{1} << 30;
constexpr const char* kLearned = "learned";

struct RlOptions {
  std::string recipe, table, out;
  std::int64_t steps = 0, seed = -1;
  bool resume = false;
};

/// A line a second, and those of the first and the last step.
class StepLines {
 public:
  void operator()(const rl::StepMetrics& step) {
    if (is_due(step)) print_error("{}\n", rl::progress_text(step));
  }
  void operator()(const rl::ImitationStep& step) {
    if (is_due(step))
      print_error("imitation {}/{}  relative entropy {:.4f}\n", step.step, step.steps, step.relative_entropy);
  }

 private:
  template <class Step>
  bool is_due(const Step& step) {
    const auto now = std::chrono::steady_clock::now();
    if (step.step > 1 && step.step < step.steps && now < next_) return false;
    next_ = now + std::chrono::seconds(1);
    return true;
  }

  std::chrono::steady_clock::time_point next_;
};

/// Standing of the controls and of what was learned, on tasks that it was not trained on.
Status examine(const rl::TableExam& exam, rl::ChoiceActor& actor, const std::string& folder) {
  std::vector<ContestSample> samples = rl::contend_controls(exam);
  LATHE_TRY(const auto alone, rl::contend_without_repeats(exam, actor, kLearned));
  LATHE_TRY(const auto in_order, rl::contend_in_order(exam, actor, "learned_in_order"));
  LATHE_TRY(const auto drawn, rl::contend(exam, actor, "learned_samples"));
  LATHE_TRY(const auto together, rl::contend_in_evolution(exam, actor, "learned_in_evolve"));
  for (const auto& some : {alone, in_order, drawn, together})
    samples.insert(samples.end(), some.begin(), some.end());
  LATHE_TRY(const std::string table, rl::write_standing(samples, kLearned, folder));
  print_block("", table);
  return Ok{};
}

Result<int> train(const RlOptions& options) {
  LATHE_TRY(const std::string recipe_text, read_file(options.recipe, kMostRecipeBytes));
  LATHE_TRY(rl::RlRecipe recipe, rl::parse_rl_recipe(recipe_text, options.recipe));
  LATHE_CHECK_OK(rl::check_told_by_table(recipe.reward));
  if (options.steps > 0) recipe.steps = options.steps;
  if (options.seed >= 0) recipe.seed = static_cast<std::uint64_t>(options.seed);
  recipe.digest = digest_of(fmt::format("{}\n{}", recipe_text, recipe.seed));
  LATHE_TRY(const std::string table_text, read_file(options.table, kMostTableBytes));
  const auto table = rl::parse_table(table_text);
  if (!table.ok()) return invalid(options.table + ": " + table.error().message, table.error().hint);
  std::error_code ignored;
  if (!options.resume && std::filesystem::exists(options.out + "/checkpoint.json", ignored))
    return invalid(options.out + " holds a run already",
                   "continue it with --resume, or choose another --out");
  LATHE_CHECK_OK(make_directories(options.out));
  LATHE_TRY(const RunLock lock, RunLock::take(options.out, "train"));

  const auto held_out = rl::held_out_tasks(*table, recipe.held_out, recipe.held_out_part);
  rl::RlRun run{
      .recipe = recipe,
      .tasks = {},
      .gym = digest_of(table_text),
      .folder = options.out,
      .resume = options.resume && std::filesystem::exists(options.out + "/checkpoint.json", ignored),
      .cancel = stop_token(),
      .on_step = StepLines()};
  for (std::size_t task = 0; task < table->tasks.size(); ++task)
    if (!std::ranges::binary_search(held_out, task)) run.tasks.push_back(task);
  print_error("{} tasks to train on, {} held out, on {}\n", run.tasks.size(), held_out.size(), table->device);
  if (const auto without = std::ranges::count_if(table->tasks, std::not_fn(&rl::TableTask::has_default)))
    print_error("the catalogue's default of {} tasks was not measured: the row nearest to it stands in\n",
                without);

  rl::TableGym gym(*table);
  rl::ChoiceActor actor(*table, Seed::from_number(recipe.seed).derive("weights"),
                        {.hidden = static_cast<int>(recipe.hidden),
                         .rollout_bits = static_cast<int>(recipe.rollout_bits),
                         .joint_temperature = recipe.joint_temperature});
  if (!run.resume) LATHE_CHECK_OK(rl::imitate(recipe, run.tasks, actor, run.cancel, StepLines()));
  LATHE_TRY(const rl::RlOutcome outcome, rl::run_rl(run, actor, gym));
  if (outcome.cancelled) {
    print_error(
        "lathe: stopped after step {0} of {1}; go on with --resume, or let --resume --steps {0} write the "
        "result\n",
        outcome.steps_done, recipe.steps);
    return static_cast<int>(kInterrupted);
  }
  if (!held_out.empty())
    LATHE_CHECK_OK(examine({.table = *table,
                            .tasks = held_out,
                            .samples = recipe.examined_samples,
                            .seed = Seed::from_number(recipe.seed).derive("exam")},
                           actor, options.out));
  print("{}\n", options.out + "/weights.json");
  return static_cast<int>(kSuccess);
}

}  // namespace

bool trains_choices(const std::vector<std::string>& arguments) {
  return std::ranges::any_of(arguments, [](const std::string& argument) {
    if (argument.starts_with('-')) return false;
    const auto text = read_file(argument, kMostRecipeBytes);
    return text.ok() && rl::is_rl_recipe(*text) && !rl::names_language_model(*text);
  });
}

Result<int> train_choices(const std::vector<std::string>& arguments) {
  RlOptions options;
  CLI::App app{
      "Train a network that chooses schedules, by reinforcement learning on a table of measured ones."};
  app.name("lathe train");
  app.footer("Recipes that train a language model have more options: lathe-torch train --help\n");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("lathe train: {}\n  hint: lathe train --help\n", error.what());
  });
  app.add_option("RECIPE", options.recipe, "A TOML file with a table [rl]: docs/rl.md")->required();
  app.add_option("--table", options.table, "What `lathe data table` wrote")->required();
  app.add_option("--out", options.out, "A folder for weights, metrics, samples and the exam")->required();
  app.add_option("--steps", options.steps, "In place of the recipe's")->check(one_or_more());
  app.add_option("--seed", options.seed, "In place of the recipe's")
      ->check(whole_number(0, std::numeric_limits<std::int64_t>::max()).description("0.."));
  app.add_flag("--resume", options.resume, "Go on from the last checkpoint, if there is one");
  if (const auto ended = parse_arguments(app, arguments)) return *ended;
  return train(options);
}

}  // namespace lathe::cli
