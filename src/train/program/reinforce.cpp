#include "train/program/reinforce.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <set>
#include <vector>

#include "backend/device_lane.h"
#include "backend/installation.h"
#include "base/guard.h"
#include "base/process.h"
#include "base/stop_signals.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "model/checkpoint.h"
#include "model/find_model.h"
#include "rl/contenders.h"
#include "rl/live_gym.h"
#include "rl/run.h"
#include "serve/client/remote_gym.h"
#include "train/crew.h"
#include "train/gpu.h"
#include "train/lm_actor.h"
#include "train/lm_recipe.h"
#include "train/naive_witness.h"
#include "train/program/team.h"

namespace lathe::train {
namespace {

constexpr std::size_t kMostTableBytes = std::size_t{1} << 30;
constexpr const char* kLearned = "learned";

/// Everything that an actor is made of, the tasks apart.
struct ActorSource {
  const LmRecipe& recipe;
  const Placement& placement;
  /// Of the run's other processes; null: its actors learn alone.
  const Links* links = nullptr;
  Reducer* reducer = nullptr;
  /// Of the GPU that the model computes on, for whoever times kernels there; null: nobody does.
  std::shared_ptr<DeviceLane> lane = nullptr;

  Result<OpenedModel> open() const {
    return open_model({.model = recipe.model, .system = {}, .seed = recipe.rl.seed}, placement.decoder);
  }
};

/// With the weights from which training begins; `begin` names the adapter, if there is one.
Result<Learner> make_learner(const ActorSource& source, lm::Decoder decoder, const std::string& begin) {
  const LmRecipe& recipe = source.recipe;
  const auto learner = [&]() -> Result<Learner> {
    if (begin.empty()) return Learner::create(std::move(decoder), recipe.adapter, recipe.rl.seed);
    LATHE_TRY(const lm::Adapter adapter, lm::read_adapter(begin));
    return Learner::create(std::move(decoder), adapter);
  };
  LATHE_TRY(Learner made, learner());
  made.use(*source.placement.kernels);
  return made;
}

std::function<std::shared_ptr<void>()> turns_of(const std::shared_ptr<DeviceLane>& lane) {
  if (!lane) return {};
  return [lane] {
    return std::make_shared<DeviceLane::Lease>(lane->take(DeviceLane::Use::kWork, DeviceLane::Grain::kBlock));
  };
}

Result<std::unique_ptr<LmActor>> make_actor(const ActorSource& source, OpenedModel opened,
                                            std::shared_ptr<const LmTasks> tasks, const std::string& begin) {
  const LmRecipe& recipe = source.recipe;
  LATHE_TRY(Learner made, make_learner(source, std::move(opened.decoder), begin));
  const bool later_turns = recipe.kernels && recipe.rl.turns > 1;
  const LmActorOptions options{.tokens_at_once = recipe.tokens_at_once,
                               .answers_at_once = static_cast<std::int32_t>(recipe.answers_at_once),
                               .longest_prompt = later_turns ? recipe.kernels->prompt_tokens : 0,
                               .base_name = name_on_card(recipe.model),
                               .judged_meanwhile = source.lane != nullptr,
                               .take_turn = turns_of(source.lane),
                               .links = source.links,
                               .reducer = source.reducer};
  return LmActor::create(std::move(tasks), std::move(made), std::move(opened.coding), options);
}

/// The lane of the model's GPU, which a gym on this machine shares by the GPU's UUID. Null where
/// the model computes on a processor, whose timings it would disturb at every moment, and where
/// processes cannot take turns.
std::shared_ptr<DeviceLane> lane_of(const Placement& placement) {
  if (!placement.decoder.device.is_cuda()) return nullptr;
  const auto uuid = uuid_of_gpu();
  if (!uuid.ok()) return nullptr;
  auto lane = std::make_shared<DeviceLane>(DeviceLane::Grain::kBlock, *uuid);
  if (lane->unshared().empty()) return lane;
  cli::print_error("answers are judged once all are written: {}\n", lane->unshared());
  return nullptr;
}

/// What, beside the number of steps, decides the weights after each.
Result<Digest> digest_of_run(const LmRecipe& recipe, const std::string& recipe_text,
                             const Placement& placement, int processes) {
  Hasher hasher;
  hasher.add(recipe_text).add(static_cast<std::int64_t>(recipe.rl.seed));
  hasher.add(recipe.model).add(name_of(placement.decoder.precision));
  hasher.add(placement.decoder.device.str()).add(static_cast<std::int64_t>(at::get_num_threads()));
  if (processes > 1) hasher.add(std::int64_t{processes});
  if (const auto path = find_model(recipe.model); path.ok()) {
    LATHE_TRY(const Checkpoint checkpoint, Checkpoint::open(*path));
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
    LATHE_TRY(OpenedModel opened, source.open());
    LATHE_TRY(const auto actor,
              make_actor(source, std::move(opened), table_tasks(exam.table), tuned ? begin : ""));
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
    cli::print_error("{}  {:.2f} s: {:.2f} rollout, {:.2f} judging, {:.2f} update\n", rl::progress_text(step),
                     step.seconds, step.rollout_seconds, step.judging_seconds, step.update_seconds);
  }

 private:
  std::chrono::steady_clock::time_point next_;
};

/// What the connection to a service has to say.
class Warnings final : public EventSink {
 public:
  void on_event(const Event& event) override {
    if (event.severity >= Severity::kWarning || event.kind == "gym.back")
      cli::print_error("{}\n", event.text);
  }
};

/// A run that is about to begin or to go on: its folder, what it is made of, and what it is called.
struct Beginning {
  const TrainOptions& options;
  const LmRecipe& recipe;
  const Placement& placement;
  const Links& links;
  Reducer& reducer;
  bool resume = false;

  rl::RlRun run(const Digest& gym) const {
    return {.recipe = recipe.rl,
            .tasks = {},
            .gym = gym,
            .folder = options.out,
            .resume = resume,
            .cancel = cancelled_by_signals(),
            .on_step = RlProgress()};
  }
};

void tell_beginning(const rl::RlRun& run, const std::string& more, LmActor& actor, int processes) {
  const lm::DecoderOptions& placed = actor.learner().decoder().options();
  cli::print_error("{} tasks to train on, {}; {} parameters to train, {} on {}{}\n", run.tasks.size(), more,
                   actor.learner().parameters().count(), name_of(placed.precision), placed.device.str(),
                   processes > 1 ? fmt::format(", in {} processes", processes) : "");
}

/// The exit code of a run that was stopped; nullopt: it is done.
std::optional<int> stopped(const rl::RlOutcome& outcome, std::int64_t steps) {
  if (!outcome.cancelled) return std::nullopt;
  cli::print_error(
      "stopped after step {0} of {1}; go on with --resume, or let --resume --steps {0} write the result\n",
      outcome.steps_done, steps);
  return static_cast<int>(cli::kInterrupted);
}

Result<int> learn_schedules(const Beginning& beginning) {
  const auto& [options, recipe, placement, links, reducer, resume] = beginning;
  LATHE_TRY(const std::string table_text, read_file(options.table, kMostTableBytes));
  const auto table = rl::parse_table(table_text);
  if (!table.ok()) return invalid(options.table + ": " + table.error().message, table.error().hint);
  const ActorSource source{recipe, placement}, together{recipe, placement, &links, &reducer};
  LATHE_TRY(OpenedModel opened, source.open());
  LATHE_TRY(const auto actor, make_actor(together, std::move(opened), table_tasks(*table), recipe.begin));
  const auto held_out = rl::held_out_tasks(*table, recipe.rl.held_out, recipe.rl.held_out_part);
  rl::RlRun run = beginning.run(digest_of(table_text));
  for (std::size_t task = 0; task < table->tasks.size(); ++task)
    if (!std::ranges::binary_search(held_out, task)) run.tasks.push_back(task);
  tell_beginning(run, fmt::format("{} held out, on {}", held_out.size(), table->device), *actor,
                 links.size());
  rl::TableGym gym(*table);
  LATHE_TRY(const rl::RlOutcome outcome, rl::run_rl(run, *actor, gym));
  if (const auto code = stopped(outcome, recipe.rl.steps)) return *code;
  if (!held_out.empty())
    LATHE_CHECK_OK(examine({.table = *table,
                            .tasks = held_out,
                            .samples = recipe.rl.examined_samples,
                            .seed = Seed::from_number(recipe.rl.seed).derive("exam")},
                           source, *actor, options.out));
  cli::print("{}/{}\n", options.out, actor->learner().low_rank() ? "adapter" : "model");
  return static_cast<int>(cli::kSuccess);
}

/// Every task of a folder once, by the names of their files.
Result<std::vector<std::shared_ptr<const TaskSpec>>> tasks_in(const std::string& folder) {
  const std::vector<std::string> files = task_files(folder);
  if (files.empty())
    return Error{ErrorCode::kNotFound, fmt::format("the folder '{}' holds no task", folder),
                 "name one with *.toml: lathe data draft and lathe tasks generate write some"};
  std::vector<std::shared_ptr<const TaskSpec>> tasks;
  std::set<Digest> seen;
  for (const std::string& file : files) {
    LATHE_TRY(TaskSpec task, load_task(file));
    if (seen.insert(task.digest).second) tasks.push_back(std::make_shared<const TaskSpec>(std::move(task)));
  }
  return tasks;
}

TokenCounter counter_of(const Tokenizer& tokenizer) {
  return [tokenizer](std::string_view text) {
    return static_cast<std::int64_t>(tokenizer.encode(text, SpecialTokens::kAsText).size());
  };
}

/// Names what is asked and on what it is timed; where the service listens does not matter.
Digest digest_of_gym(const DeviceRecord& device, const KernelTasks& tasks) {
  Hasher hasher;
  hasher.add(device.device.kind).add(device.device.name);
  for (const auto& task : tasks.tasks()) hasher.add(task->digest.hex());
  return hasher.finish();
}

Result<int> learn_kernels(const Beginning& beginning) {
  const auto& [options, recipe, placement, links, reducer, resume] = beginning;
  LATHE_TRY(auto specs, tasks_in(options.tasks));
  Warnings warnings;
  LATHE_TRY(const auto service,
            serve::RemoteGym::connect({.url = options.gym, .token = take_variable("LATHE_TOKEN")}, warnings,
                                      cancelled_by_signals()));
  const ActorSource source{recipe, placement, &links, &reducer, lane_of(placement)};
  LATHE_TRY(OpenedModel opened, source.open());
  if (!opened.coding.tokenizer) return invalid("the model has no tokenizer", "name a model that has one");
  LATHE_TRY(const std::shared_ptr<const KernelTasks> tasks,
            KernelTasks::create({.tasks = std::move(specs),
                                 .device = service->device(),
                                 .prompt = {.max_tokens = recipe.kernels->prompt_tokens,
                                            .count = counter_of(*opened.coding.tokenizer)},
                                 .answer_tokens = recipe.kernels->answer_tokens},
                                kernel_language()));
  if (tasks->count() == 0)
    return invalid("the prompts of all tasks are too long",
                   "allow more 'prompt_tokens', or take other tasks");
  LATHE_TRY(const auto actor, make_actor(source, std::move(opened), tasks, recipe.begin));
  rl::RlRun run = beginning.run(digest_of_gym(service->device(), *tasks));
  run.tasks.resize(tasks->count());
  std::iota(run.tasks.begin(), run.tasks.end(), std::size_t{0});
  tell_beginning(run,
                 fmt::format("{} with too long prompts left out, judged on {}", tasks->left_out(),
                             service->device().device.name),
                 *actor, links.size());
  const auto client = service->connect_client();
  rl::LiveGym gym(tasks->tasks(), *client, run.cancel);
  std::optional<NaiveWitness> witness;
  if (recipe.kernels->naive_asked) {
    LATHE_TRY(std::string program, find_program({}, "lathe"));
    witness.emplace(gym,
                    NaiveWitnessOptions{std::move(program), options.tasks, service->device().device.kind});
  }
  rl::Gym& judges = witness ? static_cast<rl::Gym&>(*witness) : gym;
  LATHE_TRY(const rl::RlOutcome outcome, rl::run_rl(run, *actor, judges));
  if (const auto code = stopped(outcome, recipe.rl.steps)) return *code;
  cli::print("{}/{}\n", options.out, actor->learner().low_rank() ? "adapter" : "model");
  return static_cast<int>(cli::kSuccess);
}

Status check_gym(const LmRecipe& recipe, const TrainOptions& options) {
  if (recipe.kernels && (options.gym.empty() || options.tasks.empty()))
    return invalid("kernels need a gym and tasks",
                   "give --gym with the address of a lathe serve, and --tasks with a folder");
  if (recipe.kernels && !options.table.empty())
    return invalid("a table judges no kernels", "leave --table out");
  if (!recipe.kernels && options.table.empty())
    return invalid("reinforcement learning needs a table",
                   "give --table with what lathe data table --language schedule wrote");
  if (!recipe.kernels && !(options.gym.empty() && options.tasks.empty()))
    return invalid("schedules are learned on a table", "leave --gym and --tasks out");
  return Ok{};
}

/// What a run's other processes do: they learn with the first, which answers and asks the gym.
Result<int> follow(const Links& links, const LmRecipe& recipe, const Placement& placement) {
  const ActorSource source{recipe, placement};
  LATHE_TRY(OpenedModel opened, source.open());
  LATHE_TRY(Learner learner, make_learner(source, std::move(opened.decoder), recipe.begin));
  LATHE_TRY(const std::unique_ptr<Reducer> reducer, reducer_of(placement, links));
  const auto lane = recipe.kernels ? lane_of(placement) : nullptr;
  LATHE_CHECK_OK(
      serve_crew(learner, {.links = &links, .reducer = reducer.get(), .take_turn = turns_of(lane)}));
  return static_cast<int>(cli::kSuccess);
}

Result<int> learn_in(const Team& team, const TrainOptions& options, LmRecipe recipe,
                     const std::string& recipe_text, bool resume) {
  LATHE_TRY(const Placement placement, placement_of(options, recipe.precision));
  const Links& links = team.links();
  if (!team.is_first()) return follow(links, recipe, placement);
  LATHE_TRY(recipe.rl.digest, digest_of_run(recipe, recipe_text, placement, links.size()));
  LATHE_TRY(const std::unique_ptr<Reducer> reducer, reducer_of(placement, links));
  const Beginning beginning{options, recipe, placement, links, *reducer, resume};
  return recipe.kernels ? learn_kernels(beginning) : learn_schedules(beginning);
}

}  // namespace

Result<int> reinforce(const TrainOptions& options, const std::string& recipe_text) {
  LATHE_TRY(LmRecipe recipe, parse_lm_recipe(recipe_text, options.recipe));
  if (!options.model.empty()) recipe.model = options.model;
  if (!options.adapter.empty()) recipe.begin = options.adapter;
  if (options.steps > 0) recipe.rl.steps = options.steps;
  if (options.seed >= 0) recipe.rl.seed = static_cast<std::uint64_t>(options.seed);
  if (recipe.model.empty()) return invalid("the recipe names no model", "name one with --model");
  LATHE_CHECK_OK(check_gym(recipe, options));
  const bool first = options.rank == 0;
  std::error_code ignored;
  const bool begun = std::filesystem::exists(options.out + "/checkpoint.json", ignored);
  if (first && !options.resume && begun)
    return invalid(options.out + " holds a run already",
                   "continue it with --resume, or choose another --out");

  UniqueFd lock;
  if (first) {
    LATHE_TRY(lock, lock_run(options.out));
  }
  LATHE_TRY(const auto team, Team::gather(options.devices, options.rank, options.arguments));
  const auto code = learn_in(*team, options, std::move(recipe), recipe_text, options.resume && begun);
  if (!code.ok()) return team->explained(code.error());
  team->part();
  return *code;
}

}  // namespace lathe::train
