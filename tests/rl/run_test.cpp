#include "rl/run.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/fd.h"
#include "rl/choice_actor.h"
#include "tests/rl/made_up_table.h"

namespace lathe::rl {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;

/// A folder of its own for each test.
std::string folder(const std::string& part = "") {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path =
      testing::TempDir() + "rl_run_" + std::to_string(::getpid()) + "_" + test->name() + part;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

RlRecipe recipe_of(std::uint64_t seed = 1) {
  RlRecipe recipe;
  recipe.steps = 40;
  recipe.prompts = 6;
  recipe.samples = 6;
  recipe.learning_rate = 0.02;
  recipe.hidden = 8;
  recipe.seed = seed;
  return recipe;
}

std::vector<std::size_t> all_tasks(const ScheduleTable& table) {
  std::vector<std::size_t> tasks(table.tasks.size());
  std::iota(tasks.begin(), tasks.end(), std::size_t{0});
  return tasks;
}

struct Outcome {
  std::vector<StepMetrics> steps;
  std::string weights;
  double gain() const {  ///< mean reward of the last ten steps over that of the first five
    double first = 0, last = 0;
    for (std::size_t i = 0; i < 5; ++i) first += steps[i].reward / 5;
    for (std::size_t i = steps.size() - 10; i < steps.size(); ++i) last += steps[i].reward / 10;
    return last - first;
  }
};

Outcome run(const RlRecipe& recipe, const ScheduleTable& table, const std::string& where, bool resume = false,
            CancelToken cancel = {}, std::int64_t cancel_after = -1) {
  TableGym gym(table);
  ChoiceActor actor(
      table, Seed::from_number(recipe.seed).derive("weights"),
      {.hidden = static_cast<int>(recipe.hidden), .rollout_bits = static_cast<int>(recipe.rollout_bits)});
  Outcome outcome;
  RlRun options{
      .recipe = recipe, .tasks = all_tasks(table), .folder = where, .resume = resume, .cancel = cancel};
  options.on_step = [&](const StepMetrics& step) {
    outcome.steps.push_back(step);
    if (step.step == cancel_after) cancel.cancel();
  };
  const auto ended = run_rl(options, actor, gym);
  EXPECT_TRUE(ended.ok()) << ended.error().to_string();
  outcome.weights = actor.weights();
  return outcome;
}

/// Student's t of the gains of ten runs with different seeds.
double t_of_gains(const ScheduleTable& table, bool shuffled) {
  std::vector<double> gains;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RlRecipe recipe = recipe_of(seed);
    recipe.shuffle_rewards = shuffled;
    gains.push_back(run(recipe, table, folder()).gain());
  }
  return mean(gains) / (stddev(gains) / std::sqrt(10.0));
}

TEST(RunRl, RaisesTheRewardAndDoesNotWhereRewardsAreShuffled) {
  const ScheduleTable table = made_up_table(8);
  const double significant = student_t(9, 0.02);  // p < 0.01 on the side of a gain
  EXPECT_GT(t_of_gains(table, false), significant);
  EXPECT_LT(t_of_gains(table, true), significant);
}

TEST(RunRl, GoesOnBitByBit) {
  const ScheduleTable table = made_up_table(4);
  for (const std::int64_t turns : {1, 3}) {
    RlRecipe recipe = recipe_of();
    recipe.steps = 12;
    recipe.turns = turns;
    recipe.exemplars = 2;
    recipe.smoothing_window = 100;
    recipe.updates = 2;
    const std::string whole = folder("whole"), parts = folder("parts");
    const Outcome once = run(recipe, table, whole);
    run(recipe, table, parts, false, CancelToken(), 5);
    ASSERT_FALSE(std::filesystem::exists(parts + "/weights.json"));
    const Outcome again = run(recipe, table, parts, true);
    EXPECT_THAT(again.steps, SizeIs(7));
    EXPECT_EQ(again.weights, once.weights);
    EXPECT_EQ(*read_file(parts + "/samples.jsonl"), *read_file(whole + "/samples.jsonl"));
  }
}

TEST(RunRl, RefusesToGoOnWithAnotherRecipe) {
  const ScheduleTable table = made_up_table(2);
  RlRecipe recipe = recipe_of();
  recipe.steps = 3;
  const std::string where = folder();
  run(recipe, table, where);
  recipe.digest = digest_of("another");
  TableGym gym(table);
  ChoiceActor actor(table, {}, {.hidden = 8});
  const auto ended = run_rl({.recipe = recipe, .tasks = {0}, .folder = where, .resume = true}, actor, gym);
  ASSERT_FALSE(ended.ok());
  EXPECT_THAT(ended.error().message, HasSubstr("recipe"));
}

TEST(RunRl, ItsOwnWeightsHaveNoMismatchAndRoundedOnesDo) {
  const ScheduleTable table = made_up_table(4);
  RlRecipe recipe = recipe_of();
  recipe.steps = 10;
  for (const StepMetrics& step : run(recipe, table, folder()).steps) {
    EXPECT_EQ(step.mismatch, 0);
    EXPECT_EQ(step.kept_tokens, 1);
  }
  recipe.rollout_bits = 3;
  recipe.mismatch.scope = RejectionScope::kTurn;
  const StepMetrics last = run(recipe, table, folder("rounded")).steps.back();
  EXPECT_GT(last.mismatch, 1e-3);
  EXPECT_LT(last.kept_tokens, 0.9);
}

TEST(RunRl, LaterTurnsAndExemplarsTellTheActorSomething) {
  const ScheduleTable table = made_up_table(8);
  RlRecipe recipe = recipe_of();
  recipe.turns = 2;
  const std::string where = folder();
  run(recipe, table, where);
  double first = 0, second = 0;
  const std::string samples = *read_file(where + "/samples.jsonl");
  for (std::size_t at = 0; at < samples.size();) {
    const std::size_t end = samples.find('\n', at);
    const auto line = nlohmann::json::parse(samples.substr(at, end - at));
    if (line["step"].get<int>() > recipe.steps - 10)
      (line["turn"] == 0 ? first : second) += line["reward"].get<double>();
    at = end + 1;
  }
  EXPECT_GT(second, first);
}

/// Loses one answer in three.
class LossyGym final : public Gym {
 public:
  explicit LossyGym(const ScheduleTable& table) : gym_(table) {}
  std::size_t tasks() const override { return gym_.tasks(); }
  std::string_view task_name(std::size_t task) const override { return gym_.task_name(task); }
  std::string_view peer(std::size_t task) const override { return gym_.peer(task); }
  Result<std::vector<Verdict>> judge(std::span<const Question> questions, const Seed& seed) override {
    auto verdicts = gym_.judge(questions, seed);
    for (std::size_t i = 0; i < verdicts->size(); i += 3)
      (*verdicts)[i] = Verdict{.outcome = lathe::Outcome::kInfra};
    return verdicts;
  }

 private:
  TableGym gym_;
};

TEST(RunRl, DropsAndCountsWhatTheMachineLost) {
  const ScheduleTable table = made_up_table(4);
  RlRecipe recipe = recipe_of();
  recipe.steps = 2;
  LossyGym gym(table);
  ChoiceActor actor(table, Seed::from_number(1), {.hidden = 8});
  std::vector<StepMetrics> steps;
  RlRun options{.recipe = recipe, .tasks = all_tasks(table), .folder = folder()};
  options.on_step = [&](const StepMetrics& step) { steps.push_back(step); };
  ASSERT_TRUE(run_rl(options, actor, gym).ok());
  for (const StepMetrics& step : steps) {
    EXPECT_EQ(step.lost, 12);
    EXPECT_EQ(step.outcomes.at("INFRA"), 12);
    EXPECT_NEAR(step.kept_tokens, 2.0 / 3, 1e-9);
    EXPECT_GT(step.reward, 0.5);
  }
}

}  // namespace
}  // namespace lathe::rl
