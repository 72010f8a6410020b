#include "rl/imitation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "tests/rl/made_up_table.h"

namespace lathe::rl {
namespace {

/// Probabilities of a task's rows by what the actor draws.
std::map<std::string, double> drawn_shares(ChoiceActor& actor, std::size_t task) {
  const std::vector<Prompt> prompts(4000, {.task = task});
  const auto answers = actor.sample(prompts, Seed::from_number(2));
  std::map<std::string, double> shares;
  for (const Answer& answer : *answers) shares[answer.text] += 1.0 / 4000;
  return shares;
}

TEST(Imitation, TheBetterARowTheLikelierItIsInThatProportion) {
  const ScheduleTable table = made_up_table(1);
  ChoiceActor actor(table, Seed::from_number(1), {.hidden = 16});
  const std::size_t tasks[] = {0};
  double first = 0, last = 0;
  ASSERT_TRUE(imitate({.imitation_steps = 800, .imitation_temperature = 0.2, .learning_rate = 1e-2}, tasks,
                      actor, {},
                      [&](const ImitationStep& step) {
                        if (step.step == 1) first = step.relative_entropy;
                        last = step.relative_entropy;
                      })
                  .ok());
  EXPECT_LT(last, 0.05);
  EXPECT_GT(first, 10 * last);

  double all = 0;
  for (const TableRow& row : table.tasks[0].rows())
    all += row.outcome == Outcome::kPass ? std::pow(row.speedup.low, 5) : 0;
  const auto shares = drawn_shares(actor, 0);
  for (const TableRow& row : table.tasks[0].rows()) {
    const double wanted = row.outcome == Outcome::kPass ? std::pow(row.speedup.low, 5) / all : 0;
    const auto share = shares.find(row.text());
    EXPECT_NEAR(share == shares.end() ? 0 : share->second, wanted, 0.04) << row.text();
  }
}

TEST(Imitation, OfTasksThatItDoesNotKnowTheBestRowsAreLikely) {
  const ScheduleTable table = made_up_table(16);
  ChoiceActor actor(table, Seed::from_number(1), {.hidden = 16});
  std::vector<std::size_t> tasks(12);
  std::iota(tasks.begin(), tasks.end(), std::size_t{0});
  ASSERT_TRUE(imitate({.imitation_steps = 300, .learning_rate = 1e-2}, tasks, actor, {}).ok());
  for (std::size_t task = 12; task < 16; ++task) {
    const Answer answer = *actor.greedy({.task = task});
    double best = 0;
    for (const TableRow& row : table.tasks[task].rows()) best = std::max(best, row.speedup.mid);
    EXPECT_EQ(table.tasks[task].find(answer.text)->speedup.mid, best) << table.tasks[task].name();
  }
}

TEST(Imitation, LearnsNothingWhereAllFailedAndEndsWhenItIsStopped) {
  ScheduleTable table = made_up_table(1);
  std::vector<TableRow> rows = table.tasks[0].rows();
  for (TableRow& row : rows) row.outcome = Outcome::kWrong, row.speedup = {};
  table.tasks[0] = *TableTask::make(table.tasks[0].id(), table.tasks[0].sites(), rows);
  ChoiceActor actor(table, Seed::from_number(1), {.hidden = 8});
  const std::string before = actor.weights();
  const std::size_t tasks[] = {0};
  ASSERT_TRUE(imitate({.imitation_steps = 3}, tasks, actor, {}).ok());
  EXPECT_EQ(actor.weights(), before);

  const CancelToken raised;
  raised.cancel();
  const auto stopped = imitate({.imitation_steps = 3}, tasks, actor, raised);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace lathe::rl
