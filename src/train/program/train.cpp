// lathe-torch train: supervised fine-tuning or reinforcement learning by a recipe.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/guard.h"
#include "base/stop_signals.h"
#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "rl/recipe.h"
#include "train/program/bench.h"
#include "train/program/reinforce.h"
#include "train/program/setup.h"
#include "train/program/team.h"
#include "train/sft.h"

namespace lathe::train {
namespace {

constexpr std::size_t kMostRecipeBytes = 1 << 20;

/// A line a second, and those of the first and the last step.
class Progress {
 public:
  void step(const StepMetrics& step) {
    const auto now = std::chrono::steady_clock::now();
    if (step.step > 1 && step.step < step.steps && now < next_) return;
    next_ = now + std::chrono::seconds(1);
    cli::print_error("step {}/{}  epoch {}  loss {:.4f}  norm {:.3f}  rate {:.2e}  {:.0f} tokens/s\n",
                     step.step, step.steps, step.epoch, step.loss, step.gradient_norm, step.learning_rate,
                     static_cast<double>(step.tokens) / step.seconds);
  }

 private:
  std::chrono::steady_clock::time_point next_;
};

/// From the adapter in a folder, where one is named; else from a new one or the model's own
/// weights.
Result<Learner> begin(lm::Decoder decoder, const SftRecipe& recipe, const std::string& folder) {
  if (folder.empty()) return Learner::create(std::move(decoder), recipe.adapter, recipe.seed);
  LATHE_TRY(const lm::Adapter adapter, lm::read_adapter(folder));
  return Learner::create(std::move(decoder), adapter);
}

/// In each of a team's processes.
Result<SftOutcome> train_in(const Team& team, const TrainOptions& options, const SftRecipe& recipe) {
  LATHE_TRY(const Placement placement, placement_of(options, recipe.precision));
  LATHE_TRY(OpenedModel opened,
            open_model({recipe.model, recipe.system, recipe.chat, recipe.seed}, placement.decoder));
  const DataLimits limits{.vocab = opened.decoder.config().vocab, .most_tokens = recipe.row_tokens};
  LATHE_TRY(const Dataset data, read_dataset(recipe.train_data, opened.coding, limits));
  std::optional<Dataset> held_out;
  if (!recipe.held_out_data.empty()) {
    LATHE_TRY(held_out, read_dataset(recipe.held_out_data, opened.coding, limits));
  }
  LATHE_TRY(Learner learner, begin(std::move(opened.decoder), recipe, options.adapter));
  learner.use(*placement.kernels);
  LATHE_TRY(const std::unique_ptr<Reducer> reducer, reducer_of(placement, team.links()));
  SftRun run{.recipe = recipe,
             .train = data,
             .held_out = held_out ? &*held_out : nullptr,
             .folder = options.out,
             .base_name = name_on_card(recipe.model),
             .resume = options.resume};
  Progress progress;
  if (team.is_first()) {
    const std::string spread = options.devices > 1 ? fmt::format(", in {} processes", options.devices) : "";
    cli::print_error(
        "{} examples ({} too long, {} without a token that counts), {} parameters to train, {} on {}{}\n",
        data.examples.size(), data.too_long, data.uncounted, learner.parameters().count(),
        name_of(placement.decoder.precision), placement.decoder.device.str(), spread);
    run.cancel = cancelled_by_signals();
    run.on_step = [&](const StepMetrics& step) { progress.step(step); };
    run.on_evaluation = [](std::int64_t step, double loss) {
      cli::print_error("after step {}: held-out loss {:.4f}\n", step, loss);
    };
  }
  return run_sft(run, learner, *reducer);
}

Result<int> train(const TrainOptions& options) {
  if (options.bench) {
    if (options.devices > 1) return invalid("--bench measures one device", "leave --devices out");
    LATHE_TRY(const Placement placement, placement_of(options, std::nullopt));
    LATHE_CHECK_OK(bench_training(options.measured, placement.decoder, *placement.kernels));
    return static_cast<int>(cli::kSuccess);
  }
  if (options.recipe.empty() || options.out.empty())
    return invalid("a run needs a recipe and a folder", "lathe-torch train RECIPE.toml --out FOLDER");
  LATHE_TRY(const std::string text, read_file(options.recipe, kMostRecipeBytes));
  if (rl::is_rl_recipe(text)) return reinforce(options, text);
  for (const auto& [name, value] : {std::pair("--table", &options.table), std::pair("--gym", &options.gym),
                                    std::pair("--tasks", &options.tasks)})
    if (!value->empty())
      return invalid(std::string(name) + " is for reinforcement learning, and " + options.recipe +
                     " has no table [rl]");
  LATHE_TRY(SftRecipe recipe, parse_sft_recipe(text, options.recipe));
  if (!options.model.empty()) recipe.model = options.model;
  if (!options.data.empty()) recipe.train_data = options.data;
  if (!options.held_out.empty()) recipe.held_out_data = options.held_out;
  if (options.steps > 0) recipe.steps = options.steps;
  if (options.seed >= 0) recipe.seed = static_cast<std::uint64_t>(options.seed);
  if (recipe.model.empty()) return invalid("the recipe names no model", "name one with --model");
  if (recipe.train_data.empty()) return invalid("the recipe names no data", "name a file with --data");
  const bool first = options.rank == 0;
  std::error_code ignored;
  if (first && !options.resume && std::filesystem::exists(options.out + "/checkpoint/state.json", ignored))
    return invalid(options.out + " holds a run already",
                   "continue it with --resume, or choose another --out");

  UniqueFd lock;
  if (first) {
    LATHE_TRY(lock, lock_run(options.out));
  }
  LATHE_TRY(const auto team, Team::gather(options.devices, options.rank, options.arguments));
  const auto outcome = train_in(*team, options, recipe);
  if (!outcome.ok()) return team->explained(outcome.error());
  team->part();
  if (outcome->cancelled) {
    cli::print_error("stopped after step {} of {}; go on with --resume\n", outcome->steps_done,
                     outcome->steps);
    return static_cast<int>(cli::kInterrupted);
  }
  cli::print("{} steps, loss {:.4f}: {}/{}\n", outcome->steps, outcome->last_loss, options.out,
             recipe.adapter || !options.adapter.empty() ? "adapter" : "model");
  return static_cast<int>(cli::kSuccess);
}

void add_options(CLI::App& app, TrainOptions& options) {
  app.add_option("recipe", options.recipe, "a TOML file: docs/training.md");
  app.add_option("--out", options.out, "the folder for checkpoints, metrics.jsonl and the result");
  app.add_option("--model", options.model, "in place of the recipe's: a GGUF file, a folder, or random:tiny");
  app.add_option("--data", options.data, "in place of the recipe's: JSON Lines");
  app.add_option("--held-out", options.held_out, "in place of the recipe's: JSON Lines");
  app.add_option("--steps", options.steps, "in place of the recipe's epochs or steps")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--table", options.table,
                 "for reinforcement learning: what lathe data table --language schedule wrote");
  app.add_option("--gym", options.gym,
                 "for reinforcement learning with kernels: the address of a lathe serve, with its token in "
                 "LATHE_TOKEN");
  app.add_option("--tasks", options.tasks, "for reinforcement learning with kernels: a folder with *.toml");
  app.add_option("--adapter", options.adapter,
                 "a folder with the adapter that is trained on, in place of the recipe's");
  app.add_option("--seed", options.seed, "in place of the recipe's")->check(CLI::NonNegativeNumber);
  app.add_flag("--resume", options.resume, "go on from the last checkpoint, if there is one");
  app.add_option("--device", options.device, "auto (a GPU where there is one), cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--precision", options.precision, "in place of the recipe's: f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--threads", options.threads, "of the CPU; default: one for each processor")
      ->check(CLI::Range(1, 1024));
  app.add_option("--devices", options.devices,
                 "GPUs, or processes of a CPU, that share the passes of each step")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--rank", options.rank)->group("");  // of a process that the first one starts
  BenchOptions& measured = options.measured;
  app.add_flag("--bench", options.bench, "measure a step of random weights instead; prints TFLOP/s");
  app.add_option("--bench-shape", measured.shape, "smollm2-135m, qwen2.5-0.5b or tiny")
      ->capture_default_str();
  app.add_option("--bench-length", measured.length, "tokens of an example")
      ->check(CLI::Range(2, 1 << 17))
      ->capture_default_str();
  app.add_option("--bench-tokens", measured.tokens, "of a step")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  app.add_option("--bench-steps", measured.steps, "that are timed")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_flag("--bench-adapter", measured.adapter, "train an adapter, not all weights");
  app.add_option("--json", measured.json, "also write the measurement to this file; - is standard output");
}

/// `argv[1]` is the verb.
int run_program(int argc, char** argv) {
  CLI::App app{"Fine-tunes a language model: on pairs of prompts and answers, or by reinforcement learning."};
  app.name("lathe-torch train");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("lathe-torch train: ") + error.what() + "\n  hint: lathe-torch train --help\n";
  });
  TrainOptions options;
  options.arguments.assign(argv, argv + argc);
  add_options(app, options);
  if (const auto ended = cli::parse_arguments(app, {argv + std::min(argc, 2), argv + argc})) return *ended;
  if (options.rank < 0 || options.rank >= options.devices)
    return cli::fail(invalid("a run's first process alone starts others", "leave --rank out"));
  const auto code = train(options);
  const int ended = code.ok() ? *code : cli::fail(code.error());
  // An orderly end would wait for what a GPU still computes, and that for a process that is gone.
  if (options.devices > 1) ::_exit(cli::finish_output(ended));
  return ended;
}

}  // namespace
}  // namespace lathe::train

int main(int argc, char** argv) {
  using namespace lathe;
  if (!cli::open_standard_streams()) return cli::kMachine;
  const auto code = without_exceptions([&]() -> Result<int> { return train::run_program(argc, argv); });
  return cli::finish_output(code.ok() ? *code : cli::fail(code.error()));
}
