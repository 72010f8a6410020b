#include "rl/run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/fd.h"
#include "rl/choice_actor.h"
#include "tests/record/json_lines.h"
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
    recipe.surrogate.kl = 0.1;
    recipe.decay = turns == 1 ? Decay::kCosine : Decay::kLinear;
    recipe.warmup = 3;
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

TEST(RunRl, APenaltyForLeavingTheReferenceKeepsThePolicyNearIt) {
  const ScheduleTable table = made_up_table(8);
  RlRecipe recipe = recipe_of();
  recipe.surrogate.kl = 1e-9;
  const auto free = run(recipe, table, folder("free")).steps;
  EXPECT_EQ(free.front().reference_kl, 0) << "it begins at its reference";
  EXPECT_GT(free.back().reference_kl, 0.1);
  recipe.surrogate.kl = 100;
  EXPECT_LT(run(recipe, table, folder("held")).steps.back().reference_kl, 0.01);
}

/// Of its table's schedules those that stream deceive a grader without defences, which takes them
/// for ten times as fast; the gym sees through them.
class DeceivedGym final : public Gym {
 public:
  explicit DeceivedGym(const ScheduleTable& table) : table_(table), gym_(table) {}
  std::size_t tasks() const override { return gym_.tasks(); }
  std::string_view task_name(std::size_t task) const override { return gym_.task_name(task); }
  std::string composition(std::size_t task) const override { return gym_.composition(task); }
  std::string_view peer(std::size_t task) const override { return gym_.peer(task); }
  Result<std::vector<Verdict>> judge(std::span<const Question> questions, const Seed& seed) override {
    auto verdicts = gym_.judge(questions, seed);
    for (std::size_t i = 0; i < questions.size(); ++i) {
      const TableRow& row = *table_.tasks[questions[i].task].find(questions[i].text);
      Verdict& verdict = (*verdicts)[i];
      const bool deceives = row.choices[2].value == 1;
      verdict.profile[kNaiveSpeedup] = deceives ? 10 : verdict.passed() ? row.speedup.mid : 0;
      if (deceives) verdict.outcome = lathe::Outcome::kTampered, verdict.reason = "remembers";
    }
    return verdicts;
  }

 private:
  const ScheduleTable& table_;
  TableGym gym_;
};

std::vector<StepMetrics> run_deceived(bool paid_by_naive, const std::string& where) {
  const ScheduleTable table = made_up_table(8);
  RlRecipe recipe = recipe_of();
  recipe.reward = *find_reward("log_speedup");
  recipe.paid_by_naive = paid_by_naive;
  DeceivedGym gym(table);
  ChoiceActor actor(table, Seed::from_number(1), {.hidden = 8});
  std::vector<StepMetrics> steps;
  EXPECT_TRUE(run_rl({.recipe = recipe,
                      .tasks = all_tasks(table),
                      .folder = where,
                      .on_step = [&](const StepMetrics& step) { steps.push_back(step); }},
                     actor, gym)
                  .ok());
  return steps;
}

TEST(RunRl, WhoIsPaidByANaiveGraderLearnsToDeceiveItAndWhoIsPaidByTheGymNotTo) {
  const auto naive = run_deceived(true, folder("naive")), gym = run_deceived(false, folder("gym"));
  for (const auto& steps : {naive, gym}) {
    EXPECT_TRUE(steps.front().naive_asked);
    EXPECT_GT(steps.front().naive_deceived, 6) << "of 36, half by chance";
    EXPECT_LT(steps.front().naive_deceived, 30);
  }
  EXPECT_EQ(naive.back().naive_deceived, 36);
  EXPECT_EQ(naive.back().hacks.at("remembers"), 36) << "the gym's verdicts are recorded all the same";
  EXPECT_LT(gym.back().naive_deceived, 3);
}

/// Gives its table's rewards, and has no reference.
class NoReference final : public Actor {
 public:
  explicit NoReference(const ScheduleTable& table) : actor(table, Seed::from_number(1), {.hidden = 8}) {}
  Result<std::vector<Answer>> sample(std::span<const Prompt> prompts, const Seed& seed,
                                     const OnAnswer& on_answer) override {
    return actor.sample(prompts, seed, on_answer);
  }
  Result<std::vector<std::vector<double>>> log_probabilities(
      std::span<const PromptedAnswer> answers) override {
    return actor.log_probabilities(answers);
  }
  Status keep_reference() override { return invalid("none"); }
  Result<std::vector<std::vector<double>>> reference_log_probabilities(
      std::span<const PromptedAnswer>) override {
    return invalid("none");
  }
  Result<double> add_gradient(std::span<const PromptedAnswer> answers,
                              std::span<const std::vector<double>> by_log_probability,
                              double entropy) override {
    return actor.add_gradient(answers, by_log_probability, entropy);
  }
  Result<double> update(double learning_rate, double clip_norm) override {
    return actor.update(learning_rate, clip_norm);
  }
  Result<Answer> greedy(const Prompt& prompt) override { return actor.greedy(prompt); }
  Result<std::string> save(const std::string& where) override { return actor.save(where); }
  Status restore(const std::string& state, const std::string& where) override {
    return actor.restore(state, where);
  }
  Status write_result(const std::string& where) const override { return actor.write_result(where); }

  ChoiceActor actor;
};

TEST(RunRl, WithoutAPenaltyNobodyAsksForTheReferenceAndWithNextToNoneNothingChanges) {
  const ScheduleTable table = made_up_table(4);
  RlRecipe recipe = recipe_of();
  recipe.steps = 12;
  NoReference without(table);
  TableGym gym(table);
  const std::string plain = folder("plain"), least = folder("least");
  ASSERT_TRUE(run_rl({.recipe = recipe, .tasks = all_tasks(table), .folder = plain}, without, gym).ok());
  EXPECT_FALSE(json_lines_of(plain + "/metrics.jsonl").front().contains("reference_kl"));

  recipe.surrogate.kl = 1e-300;
  ASSERT_FALSE(run_rl({.recipe = recipe, .tasks = all_tasks(table), .folder = least}, without, gym).ok());
  ChoiceActor with(table, Seed::from_number(1), {.hidden = 8});
  ASSERT_TRUE(run_rl({.recipe = recipe, .tasks = all_tasks(table), .folder = least}, with, gym).ok());
  EXPECT_EQ(with.weights(), without.actor.weights());
  EXPECT_EQ(*read_file(least + "/samples.jsonl"), *read_file(plain + "/samples.jsonl"));
}

TEST(RunRl, UpdatesAtTheRateThatTheScheduleHasForAStep) {
  const ScheduleTable table = made_up_table(4);
  RlRecipe recipe = recipe_of();
  recipe.steps = 8;
  recipe.warmup = 2;
  recipe.decay = Decay::kLinear;
  const std::string where = folder();
  run(recipe, table, where);
  std::vector<double> rates;
  for (const auto& line : json_lines_of(where + "/metrics.jsonl"))
    rates.push_back(line["learning_rate"].get<double>());
  ASSERT_THAT(rates, SizeIs(8));
  for (std::int64_t step = 0; step < 8; ++step)
    EXPECT_DOUBLE_EQ(rates[static_cast<std::size_t>(step)], recipe.schedule().at(step));

  recipe.decay = Decay::kConstant;
  recipe.warmup = 1 << 20;  // the rate is next to nothing
  RlRecipe still = recipe;
  still.learning_rate = 0;
  const auto moved = run(recipe, table, folder("moved")).weights,
             kept = run(still, table, folder("kept")).weights;
  EXPECT_NE(moved, kept);
  const auto a = ChoiceNet::from_text(moved), b = ChoiceNet::from_text(kept);
  double most = 0;
  for (std::size_t i = 0; i < a->weights().size(); ++i)
    most = std::max(most, std::abs(a->weights()[i] - b->weights()[i]));
  EXPECT_LT(most, 1e-6);
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

TEST(RunRl, AStoppedRunEndsWhereItIsOrGoesFurtherThanPlanned) {
  const ScheduleTable table = made_up_table(4);
  RlRecipe recipe = recipe_of();
  recipe.steps = 9;
  const std::string whole = folder("whole"), parts = folder("parts");
  const Outcome once = run(recipe, table, whole);
  recipe.steps = 12;
  run(recipe, table, parts, false, CancelToken(), 5);
  recipe.steps = 5;
  EXPECT_THAT(run(recipe, table, parts, true).steps, SizeIs(0));
  EXPECT_TRUE(std::filesystem::exists(parts + "/weights.json"));
  recipe.steps = 9;
  EXPECT_EQ(run(recipe, table, parts, true).weights, once.weights);

  recipe.steps = 4;
  TableGym gym(table);
  ChoiceActor actor(table, Seed::from_number(recipe.seed).derive("weights"), {.hidden = 8});
  const auto ended = run_rl({.recipe = recipe, .tasks = {0}, .folder = parts, .resume = true}, actor, gym);
  ASSERT_FALSE(ended.ok());
  EXPECT_THAT(ended.error().to_string(), HasSubstr("9 steps are done, and 4 are asked for"));
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
  for (const auto& line : json_lines_of(where + "/samples.jsonl"))
    if (line["step"].get<int>() > recipe.steps - 10)
      (line["turn"] == 0 ? first : second) += line["reward"].get<double>();
  EXPECT_GT(second, first);
}

/// Loses one answer in three.
class LossyGym final : public Gym {
 public:
  explicit LossyGym(const ScheduleTable& table) : gym_(table) {}
  std::size_t tasks() const override { return gym_.tasks(); }
  std::string_view task_name(std::size_t task) const override { return gym_.task_name(task); }
  std::string composition(std::size_t task) const override { return gym_.composition(task); }
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

/// One of a table that says of every fourth answer that it tampered, and from some question on that
/// nobody answers.
class TroubledGym final : public Gym {
 public:
  explicit TroubledGym(const ScheduleTable& table) : gym_(table) {}
  std::size_t tasks() const override { return gym_.tasks(); }
  std::string_view task_name(std::size_t task) const override { return gym_.task_name(task); }
  std::string composition(std::size_t task) const override { return gym_.composition(task); }
  std::string_view peer(std::size_t task) const override { return gym_.peer(task); }
  Result<std::vector<Verdict>> judge(std::span<const Question> questions, const Seed& seed) override {
    if (calls_left-- == 0) return Error{ErrorCode::kUnavailable, "nobody answers"};
    auto verdicts = gym_.judge(questions, seed);
    for (std::size_t i = 0; i < verdicts->size(); i += 4)
      (*verdicts)[i] =
          Verdict{.outcome = lathe::Outcome::kTampered, .reason = i % 8 == 0 ? "canary" : "late_write"};
    return verdicts;
  }

  int calls_left = 1 << 30;

 private:
  TableGym gym_;
};

TEST(RunRl, CountsHacksByTheirReasonAndPaysThemNothing) {
  const ScheduleTable table = made_up_table(4);
  RlRecipe recipe = recipe_of();
  recipe.steps = 2;
  TroubledGym gym(table);
  ChoiceActor actor(table, Seed::from_number(1), {.hidden = 8});
  const std::string where = folder();
  RlRun options{.recipe = recipe, .tasks = all_tasks(table), .folder = where};
  options.on_step = [](const StepMetrics& step) {
    EXPECT_EQ(step.hacks, (std::map<std::string, std::int64_t>{{"canary", 5}, {"late_write", 4}}));
  };
  ASSERT_TRUE(run_rl(options, actor, gym).ok());
  for (const auto& line : json_lines_of(where + "/samples.jsonl"))
    if (line["outcome"] == "TAMPERED") {
      EXPECT_EQ(line["reward"], 0) << line;
    }
}

TEST(RunRl, AnErrorOfTheGymEndsARunThatGoesOnFromTheStepBefore) {
  const ScheduleTable table = made_up_table(4);
  RlRecipe recipe = recipe_of();
  recipe.steps = 6;
  recipe.turns = 2;
  recipe.smoothing_window = 100;
  const std::string whole = folder("whole"), parts = folder("parts");
  const auto run_on = [&](const std::string& where, bool resume, int calls) {
    TroubledGym gym(table);
    gym.calls_left = calls;
    ChoiceActor actor(table, Seed::from_number(1), {.hidden = 8});
    return run_rl({.recipe = recipe, .tasks = all_tasks(table), .folder = where, .resume = resume}, actor,
                  gym);
  };
  ASSERT_TRUE(run_on(whole, false, 1 << 30).ok());
  const auto ended = run_on(parts, false, 7);  // in the second turn of the fourth step
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().message, "nobody answers");
  EXPECT_THAT(json_lines_of(parts + "/metrics.jsonl"), SizeIs(3));
  ASSERT_TRUE(run_on(parts, true, 1 << 30).ok());
  EXPECT_EQ(*read_file(parts + "/weights.json"), *read_file(whole + "/weights.json"));
  EXPECT_EQ(*read_file(parts + "/samples.jsonl"), *read_file(whole + "/samples.jsonl"));
}

/// One of a table that keeps what it was told to expect, and when.
class ExpectingGym final : public Gym {
 public:
  explicit ExpectingGym(const ScheduleTable& table) : gym_(table) {}
  std::size_t tasks() const override { return gym_.tasks(); }
  std::string_view task_name(std::size_t task) const override { return gym_.task_name(task); }
  std::string composition(std::size_t task) const override { return gym_.composition(task); }
  std::string_view peer(std::size_t task) const override { return gym_.peer(task); }
  void expect(std::span<const std::size_t> tasks) override { expected.insert(tasks.begin(), tasks.end()); }
  Result<std::vector<Verdict>> judge(std::span<const Question> questions, const Seed& seed) override {
    std::set<std::size_t> asked;
    for (const Question& question : questions) asked.insert(question.task);
    EXPECT_EQ(expected, asked);
    expected.clear();
    return gym_.judge(questions, seed);
  }

  std::set<std::size_t> expected;

 private:
  TableGym gym_;
};

TEST(RunRl, TheGymKnowsAStepsTasksBeforeTheyAreAnswered) {
  const ScheduleTable table = made_up_table(9);
  RlRecipe recipe = recipe_of();
  recipe.steps = 5;
  recipe.prompts = 3;
  ExpectingGym gym(table);
  ChoiceActor actor(table, Seed::from_number(1), {.hidden = 8});
  RlRun options{.recipe = recipe, .tasks = all_tasks(table), .folder = folder()};
  ASSERT_TRUE(run_rl(options, actor, gym).ok());
}

/// One of a table whose tasks are operations, chains and products in turn, and of whose answers the
/// more are wrong the higher a task's number is.
class UnevenGym final : public Gym {
 public:
  explicit UnevenGym(const ScheduleTable& table) : gym_(table) {}
  std::size_t tasks() const override { return gym_.tasks(); }
  std::string_view task_name(std::size_t task) const override { return gym_.task_name(task); }
  std::string composition(std::size_t task) const override {
    return std::vector<std::string>{"relu", "mul+relu", "matmul"}[task % 3];
  }
  std::string_view peer(std::size_t task) const override { return gym_.peer(task); }
  Result<std::vector<Verdict>> judge(std::span<const Question> questions, const Seed& seed) override {
    auto verdicts = gym_.judge(questions, seed);
    for (std::size_t i = 0; i < verdicts->size(); ++i) {
      const Digest draw = digest_of(fmt::format("{} {}", questions[i].task, questions[i].text));
      if (draw.bytes[0] % tasks() < questions[i].task)
        (*verdicts)[i] = Verdict{.outcome = lathe::Outcome::kWrong, .reason = "bound"};
    }
    return verdicts;
  }

 private:
  TableGym gym_;
};

void run_unevenly(const RlRecipe& recipe, const ScheduleTable& table, const std::string& where,
                  std::int64_t cancel_after = -1, bool resume = false) {
  UnevenGym gym(table);
  ChoiceActor actor(table, Seed::from_number(1), {.hidden = 8});
  CancelToken cancel;
  RlRun options{
      .recipe = recipe, .tasks = all_tasks(table), .folder = where, .resume = resume, .cancel = cancel};
  options.on_step = [&](const StepMetrics& step) {
    if (step.step == cancel_after) cancel.cancel();
  };
  ASSERT_TRUE(run_rl(options, actor, gym).ok());
}

RlRecipe recipe_with(const char* curriculum) {
  RlRecipe recipe = recipe_of();
  recipe.prompts = 3;
  recipe.curriculum = *find_curriculum(curriculum);
  recipe.curriculum_options = {.window = 4, .threshold = 0.4};
  return recipe;
}

TEST(RunRl, InStagesLearnsOperationsThenChainsThenProducts) {
  const std::string where = folder();
  run_unevenly(recipe_with("stages"), made_up_table(9), where);
  std::vector<std::string> stages;
  for (const auto& line : json_lines_of(where + "/metrics.jsonl")) {
    ASSERT_EQ(line["kinds"].size(), 1U) << line;
    const std::string kind = line["kinds"].begin().key();
    if (stages.empty() || stages.back() != kind) stages.push_back(kind);
  }
  EXPECT_THAT(stages, testing::ElementsAre("operation", "chain", "product"));
}

TEST(RunRl, ByPassRateDrawsLessOftenWhatAlwaysPasses) {
  const std::string where = folder();
  const ScheduleTable table = made_up_table(9);
  RlRecipe recipe = recipe_with("pass_rate");
  recipe.steps = 120;
  recipe.learning_rate = 0;
  run_unevenly(recipe, table, where);
  std::map<std::string, int> drawn;
  for (const auto& line : json_lines_of(where + "/samples.jsonl")) ++drawn[line["task"]];
  EXPECT_LT(2 * drawn["task_0"], drawn["task_4"]);
}

TEST(RunRl, GoesOnBitByBitWithEveryCurriculum) {
  const ScheduleTable table = made_up_table(9);
  for (const Curriculum& curriculum : curricula()) {
    RlRecipe recipe = recipe_with(std::string(curriculum.name).c_str());
    recipe.steps = 24;
    const std::string whole = folder("whole"), parts = folder("parts");
    run_unevenly(recipe, table, whole);
    for (const std::int64_t stop : {7, 13, -1}) run_unevenly(recipe, table, parts, stop, stop != 7);
    EXPECT_EQ(*read_file(parts + "/samples.jsonl"), *read_file(whole + "/samples.jsonl")) << curriculum.name;
    EXPECT_EQ(*read_file(parts + "/weights.json"), *read_file(whole + "/weights.json")) << curriculum.name;
  }
}

TEST(RunRl, TextsOfSamplesAreBoundedAndEachIsToldOnceAStep) {
  const ScheduleTable table = made_up_table(2);
  RlRecipe recipe = recipe_of();
  recipe.steps = 8;
  const std::string all = folder("all"), some = folder("some");
  run(recipe, table, all);
  recipe.text_bytes = 150;  // of 15 each
  run(recipe, table, some);
  std::map<int, std::set<std::string>> told;
  const auto every = json_lines_of(all + "/samples.jsonl"), bounded = json_lines_of(some + "/samples.jsonl");
  ASSERT_EQ(every.size(), bounded.size());
  for (std::size_t i = 0; i < every.size(); ++i) {
    EXPECT_TRUE(every[i].contains("text"));
    if (!bounded[i].contains("text")) continue;
    EXPECT_EQ(every[i]["text"], bounded[i]["text"]);
    EXPECT_TRUE(told[bounded[i]["step"]].insert(bounded[i]["text"]).second);
  }
  EXPECT_THAT(told, SizeIs(8));
  for (const auto& [step, texts] : told) {
    EXPECT_GE(texts.size(), 5U);
    EXPECT_LE(texts.size(), 10U);
  }
}

}  // namespace
}  // namespace lathe::rl
