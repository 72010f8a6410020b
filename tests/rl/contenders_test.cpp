#include "rl/contenders.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "contest/standing.h"
#include "rl/choice_actor.h"
#include "rl/imitation.h"
#include "tests/rl/made_up_table.h"

namespace lathe::rl {
namespace {

using testing::ElementsAre;
using testing::Key;
using testing::Pair;
using testing::SizeIs;

std::map<std::string, std::vector<ContestSample>> by_entrant(std::vector<ContestSample> samples) {
  std::map<std::string, std::vector<ContestSample>> entrants;
  for (ContestSample& sample : samples) entrants[sample.entrant].push_back(std::move(sample));
  return entrants;
}

double best_of(const std::vector<ContestSample>& samples) {
  double best = 0;
  for (const ContestSample& sample : samples) best = std::max(best, sample.speedup_low);
  return best;
}

TEST(ContendControls, EvaluatesEachAsOftenAsAllOthersAndTheDefaultOnce) {
  const ScheduleTable table = made_up_table(3);
  const auto entrants = by_entrant(
      contend_controls({.table = table, .tasks = {0, 2}, .samples = 16, .seed = Seed::from_number(1)}));
  EXPECT_THAT(entrants, ElementsAre(Pair("default", SizeIs(2)), Pair("evolve", SizeIs(32)),
                                    Pair("random", SizeIs(32))));
}

TEST(ContendControls, EvolutionBeginsWithTheDefaultAndFindsTheBest) {
  const ScheduleTable table = made_up_table(1, 0.001);
  const auto entrants = by_entrant(
      contend_controls({.table = table, .tasks = {0}, .samples = 48, .seed = Seed::from_number(2)}));
  EXPECT_EQ(entrants.at("evolve").front().candidate, entrants.at("default").front().candidate);
  double best = 0;
  for (const TableRow& row : table.tasks[0].rows()) best = std::max(best, row.speedup.low);
  EXPECT_NEAR(best_of(entrants.at("evolve")), best, 0.01 * best);
}

TEST(Contend, AFreshActorDrawsAsRandomDoesAndHasAGreedyAnswer) {
  const ScheduleTable table = made_up_table(1);
  ChoiceActor actor(table, Seed::from_number(1), {});
  const auto samples =
      contend({.table = table, .tasks = {0}, .samples = 200, .seed = Seed::from_number(3)}, actor, "fresh");
  ASSERT_TRUE(samples.ok());
  EXPECT_THAT(*samples, SizeIs(201));
  EXPECT_EQ(samples->back().number, 0);
  std::map<Digest, int> counts;
  for (const ContestSample& sample : *samples) ++counts[sample.candidate];
  EXPECT_GT(counts.size(), 55U);
}

TEST(ContendWithoutRepeats, MeasuresEachRowOnceFromTheLikeliestOn) {
  const ScheduleTable table = made_up_table(1);
  ChoiceActor actor(table, Seed::from_number(1), {});
  const auto samples = contend_without_repeats(
      {.table = table, .tasks = {0}, .samples = 40, .seed = Seed::from_number(3)}, actor, "learned");
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ(samples->front().candidate, digest_of(actor.greedy({.task = 0})->text));
  std::set<Digest> distinct;
  for (const ContestSample& sample : *samples) distinct.insert(sample.candidate);
  EXPECT_THAT(distinct, SizeIs(40));
}

TEST(ContendInOrder, GoesFromTheLikeliestToTheLeastLikelyAndBeginsAgain) {
  const ScheduleTable table = made_up_table(1);
  ChoiceActor actor(table, Seed::from_number(1), {});
  const std::size_t tasks[] = {0};
  ASSERT_TRUE(imitate({.imitation_steps = 50}, tasks, actor, {}).ok());
  const std::vector<std::string> ranked = actor.ranked({.task = 0});
  EXPECT_EQ(ranked.front(), actor.greedy({.task = 0})->text);
  EXPECT_THAT(std::set(ranked.begin(), ranked.end()), SizeIs(64));
  const auto samples = contend_in_order(
      {.table = table, .tasks = {0}, .samples = 65, .seed = Seed::from_number(3)}, actor, "learned");
  ASSERT_TRUE(samples.ok());
  ASSERT_THAT(*samples, SizeIs(65));
  for (std::size_t i = 0; i < 65; ++i) EXPECT_EQ((*samples)[i].candidate, digest_of(ranked[i % 64]));
}

TEST(ContendInEvolution, BeginsWithTheGreedyAnswer) {
  const ScheduleTable table = made_up_table(1);
  ChoiceActor actor(table, Seed::from_number(1), {});
  const auto samples = contend_in_evolution(
      {.table = table, .tasks = {0}, .samples = 10, .seed = Seed::from_number(3)}, actor, "both");
  ASSERT_TRUE(samples.ok());
  EXPECT_THAT(*samples, SizeIs(10));
  EXPECT_EQ(samples->front().candidate, digest_of(actor.greedy({.task = 0})->text));
}

TEST(HeldOutTasks, AreTheSameShareWhateverTheOrder) {
  const ScheduleTable table = made_up_table(20);
  EXPECT_THAT(held_out_tasks(table, 0.25), SizeIs(5));
  EXPECT_EQ(held_out_tasks(table, 0.25), held_out_tasks(table, 0.25));
  EXPECT_THAT(held_out_tasks(table, 0), SizeIs(0));
  std::set<std::size_t> all;
  for (const int part : {0, 1, 2, 3})
    for (const std::size_t task : held_out_tasks(table, 0.25, part)) EXPECT_TRUE(all.insert(task).second);
  EXPECT_THAT(all, SizeIs(20));
  EXPECT_THAT(held_out_tasks(table, 0.25, 4), SizeIs(0));
}

TEST(Contenders, ACompositionIsHeldOutAsAWhole) {
  const ScheduleTable made_up = made_up_table(24, 0);
  ScheduleTable table{.device = made_up.device, .tasks = {}};
  for (std::size_t i = 0; i < made_up.tasks.size(); ++i) {
    const TableTask& task = made_up.tasks[i];
    TableTaskId id = task.id();
    id.composition = "of three " + std::to_string(i / 3);
    table.tasks.push_back(*TableTask::make(std::move(id), task.sites(), task.rows()));
  }
  for (const double share : {0.1, 0.25, 0.3, 0.5}) {
    std::map<std::string, int> held_out;
    for (const std::size_t task : held_out_tasks(table, share))
      ++held_out[table.tasks[task].id().composition];
    EXPECT_EQ(held_out.size(), static_cast<std::size_t>(share * 24 / 3));
    for (const auto& [composition, count] : held_out) EXPECT_EQ(count, 3) << composition;
  }
}

}  // namespace
}  // namespace lathe::rl
