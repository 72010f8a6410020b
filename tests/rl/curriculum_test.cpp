#include "rl/curriculum.h"

#include <gmock/gmock.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>

namespace lathe::rl {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr auto kOperation = TaskKind::kOperation, kChain = TaskKind::kChain, kProduct = TaskKind::kProduct;

std::vector<CurriculumTask> tasks_of(const std::vector<TaskKind>& kinds) {
  std::vector<CurriculumTask> tasks;
  for (const TaskKind kind : kinds) tasks.push_back({10 + tasks.size(), kind});
  return tasks;
}

std::vector<double> weights(const char* name, const std::vector<CurriculumTask>& tasks,
                            const CurriculumState& state, const CurriculumOptions& options = {}) {
  return find_curriculum(name)->function(tasks, state, options);
}

TEST(KindOf, SaysWhatATasksGraphIs) {
  for (const char* one : {"relu", "sum", "softmax", "layer_norm", "avg_pool2d", "transpose"})
    EXPECT_EQ(kind_of(one), kOperation) << one;
  for (const char* chain : {"mul+sigmoid", "avg_pool2d+relu", "cumsum+mean+softmax+sub"})
    EXPECT_EQ(kind_of(chain), kChain) << chain;
  for (const char* product : {"matmul", "bias_add+matmul+relu", "conv2d", "add+conv2d", "linear", "attention",
                              "grouped_matmul+relu", "conv_transpose2d"})
    EXPECT_EQ(kind_of(product), kProduct) << product;
  EXPECT_EQ(kind_of(""), kProduct) << "without a graph nobody knows how hard it is";
}

TEST(Curricula, GiveEveryTaskAWeightFromNoughtToOneAndSomeMore) {
  Rng rng(Seed::from_number(1));
  for (const Curriculum& curriculum : curricula())
    for (int i = 0; i < 200; ++i) {
      std::vector<TaskKind> kinds(1 + rng.below(9));
      for (TaskKind& kind : kinds) kind = static_cast<TaskKind>(rng.below(3));
      const auto tasks = tasks_of(kinds);
      CurriculumState state;
      const CurriculumOptions options{.window = 3};
      for (int step = 0; step < 20; ++step) {
        const auto of_step = curriculum.function(tasks, state, options);
        ASSERT_THAT(of_step, SizeIs(tasks.size())) << curriculum.name;
        EXPECT_THAT(of_step, Each(testing::AllOf(testing::Ge(0), testing::Le(1)))) << curriculum.name;
        EXPECT_THAT(of_step, testing::Contains(testing::Gt(0))) << curriculum.name;
        std::map<std::size_t, Passes> answers;
        for (const auto& drawn : draw_by_weight(tasks, of_step, 2, rng)) {
          answers[drawn.task].known += 4;
          answers[drawn.task].passed += static_cast<std::int64_t>(rng.below(5));
        }
        state = after_step(state, answers, tasks, options);
      }
    }
}

TEST(Curricula, UniformlyAllTasksAreAlike) {
  const auto tasks = tasks_of({kOperation, kProduct});
  CurriculumState state;
  state.tasks[10] = {{.known = 9, .passed = 9}};
  EXPECT_THAT(weights("uniform", tasks, state), ElementsAre(1, 1));
}

TEST(Curricula, ByPassRateWhatSometimesPassesIsDrawnMost) {
  const auto tasks = tasks_of({kChain, kChain, kChain, kChain, kChain});
  CurriculumState state;
  state.tasks[10] = {{.known = 98, .passed = 98}};
  state.tasks[11] = {{.known = 98, .passed = 0}};
  state.tasks[12] = {{.known = 60, .passed = 20}, {.known = 38, .passed = 29}};
  state.tasks[13] = {{.known = 98, .passed = 9}};
  EXPECT_THAT(weights("pass_rate", tasks, state, {.floor = 0.2}), ElementsAre(0.2, 0.2, 1, 4 * 0.1 * 0.9, 1))
      << "the last was never drawn";
}

TEST(Curricula, InStagesTasksOfOneKindAreDrawnUntilTheyPass) {
  const auto tasks = tasks_of({kProduct, kOperation, kChain, kOperation});
  const CurriculumOptions options{.window = 2, .threshold = 0.75};
  CurriculumState state;
  const auto step = [&](std::int64_t known, std::int64_t passed) {
    state = after_step(state, {{11, {known, passed}}}, tasks, options);
    return weights("stages", tasks, state, options);
  };
  const auto operations = ElementsAre(0, 1, 0, 1), chains = ElementsAre(0, 0, 1, 0),
             products = ElementsAre(1, 0, 0, 0);
  EXPECT_THAT(weights("stages", tasks, state, options), operations);
  EXPECT_THAT(step(8, 8), operations) << "a single step is no window";
  EXPECT_THAT(step(8, 4), operations) << "12 of 16 are not above three quarters";
  EXPECT_THAT(step(8, 8), operations);
  EXPECT_THAT(step(8, 5), chains) << "13 of 16";
  EXPECT_THAT(step(8, 8), chains) << "the window begins anew with the stage";
  EXPECT_THAT(step(0, 0), products) << "answers of which nothing is known do not count";
  for (int i = 0; i < 4; ++i) EXPECT_THAT(step(8, 8), products) << "the last has no end";
}

TEST(Curricula, StagesWithoutTasksArePassedOver) {
  const CurriculumOptions options{.window = 1};
  const auto tasks = tasks_of({kOperation, kProduct});
  CurriculumState state;
  state = after_step(state, {{10, {4, 4}}}, tasks, options);
  EXPECT_THAT(weights("stages", tasks, state, options), ElementsAre(0, 1));
  const auto chains = tasks_of({kChain, kChain});
  state = {};
  EXPECT_THAT(weights("stages", chains, state, options), ElementsAre(1, 1));
  state = after_step(state, {{10, {4, 4}}}, chains, options);
  EXPECT_THAT(weights("stages", chains, state, options), ElementsAre(1, 1));
}

TEST(Curricula, RememberTheLatestStepsOfATask) {
  const CurriculumOptions options{.window = 2};
  CurriculumState state;
  for (std::int64_t passed = 0; passed < 4; ++passed)
    state = after_step(state, {{3, {8, passed}}}, {}, options);
  EXPECT_THAT(state.tasks.at(3), ElementsAre(Passes{8, 2}, Passes{8, 3}));
}

TEST(Curricula, AStateComesBackFromItsText) {
  CurriculumState state;
  state.tasks[7] = {{3, 1}, {9, 9}};
  state.stage = TaskKind::kChain;
  state.stage_steps = {{5, 2}};
  EXPECT_EQ(curriculum_from(nlohmann::json::parse(to_json(state).dump())), state);
}

TEST(FindCurriculum, NamesAllThatThereAre) {
  EXPECT_THAT(find_curriculum("hard").error().hint, HasSubstr("pass_rate, stages, uniform"));
}

std::vector<std::size_t> numbers(const std::vector<CurriculumTask>& tasks) {
  std::vector<std::size_t> all;
  for (const CurriculumTask& task : tasks) all.push_back(task.task);
  return all;
}

TEST(DrawByWeight, DrawsEachTaskAsOftenAsItsWeightSays) {
  const auto tasks = tasks_of(std::vector<TaskKind>(3, kChain));
  const std::vector<double> weights = {0.2, 0.5, 0.3};
  Rng rng(Seed::from_number(1));
  std::array<double, 3> counts = {};
  constexpr int kDraws = 30000;
  for (int i = 0; i < kDraws; ++i)
    counts[draw_by_weight(tasks, weights, 1, rng)[0].task - 10] += 1.0 / kDraws;
  for (std::size_t t = 0; t < 3; ++t) EXPECT_NEAR(counts[t], weights[t], 0.01);
}

TEST(DrawByWeight, RepeatsATaskOnlyWhenAllThatCountWereDrawn) {
  const auto tasks = tasks_of(std::vector<TaskKind>(4, kChain));
  Rng rng(Seed::from_number(1));
  for (const std::vector<double>& weights : {std::vector<double>{1, 1, 0, 1}, {0.1, 1, 0, 0.5}}) {
    const auto drawn = numbers(draw_by_weight(tasks, weights, 8, rng));
    ASSERT_THAT(drawn, SizeIs(8));
    for (const std::size_t first : {0, 3})
      EXPECT_EQ(std::set<std::size_t>(drawn.begin() + static_cast<std::ptrdiff_t>(first),
                                      drawn.begin() + static_cast<std::ptrdiff_t>(first) + 3),
                (std::set<std::size_t>{10, 11, 13}));
  }
}

}  // namespace
}  // namespace lathe::rl
