#include "contest/standing.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/output.h"
#include "record/json.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

using testing::HasSubstr;

ContestSample sample(const std::string& entrant, int task, int number, double low, bool ordered = false) {
  return {.entrant = entrant,
          .ordered = ordered,
          .device = "a device",
          .language = "schedule",
          .threads = 2,
          .group = task % 2 ? "shapes" : "compositions",
          .task_name = "task_" + std::to_string(task),
          .task = digest_of(std::to_string(task)),
          .number = number,
          .candidate = digest_of(entrant),
          .outcome = low > 0 ? Outcome::kPass : Outcome::kWrong,
          .reason = "ok",
          .peer = "naive",
          .speedup_low = low,
          .speedup = low};
}

TaskScore score(const std::vector<double>& lows, bool ordered = false) {
  std::vector<ContestSample> samples;
  for (std::size_t i = 0; i < lows.size(); ++i)
    samples.push_back(sample("a", 1, static_cast<int>(i) + 1, lows[i], ordered));
  return TaskScore(std::move(samples));
}

/// The mean of `value` over every subset of k of these.
template <class Value>
double over_subsets(const std::vector<double>& lows, int k, Value value) {
  double sum = 0;
  int count = 0;
  for (std::uint32_t mask = 0; mask < (1u << lows.size()); ++mask) {
    if (std::popcount(mask) != k) continue;
    double best = 0;
    for (std::size_t i = 0; i < lows.size(); ++i)
      if (mask >> i & 1) best = std::max(best, lows[i]);
    sum += value(best);
    ++count;
  }
  return sum / count;
}

TEST(TaskScore, OfIndependentSamplesIsTheMeanOverAllSubsets) {
  const std::vector<double> lows = {0, 1.5, 0.8, 0, 2.5, 1.0, 1.2};
  for (int k = 1; k <= static_cast<int>(lows.size()); ++k) {
    EXPECT_NEAR(score(lows).speedup_at(k), over_subsets(lows, k, [](double best) { return best; }), 1e-12);
    EXPECT_NEAR(score(lows).efficiency_at(k), over_subsets(lows, k, [](double best) { return best / 2; }),
                1e-12);
    for (const double p : {0.0, 1.0, 1.2, 2.0})
      EXPECT_NEAR(score(lows).fast_at(p, k),
                  over_subsets(lows, k, [p](double best) { return best > p ? 1.0 : 0.0; }), 1e-12);
  }
}

TEST(TaskScore, CountsFailuresAsSpeedupZero) {
  EXPECT_NEAR(score({8, 4, 2, 1}).speedup_at(2), 5.67, 0.005);
  EXPECT_NEAR(score({8, 4, 2, 1, 0, 0}).speedup_at(1), 2.5, 1e-12);
}

TEST(TaskScore, OfAListIsTheBestOfItsBeginning) {
  const TaskScore list = score({0, 0.9, 3}, true);
  EXPECT_EQ(list.fast_at(0, 1), 0);
  EXPECT_EQ(list.fast_at(0, 2), 1);
  EXPECT_EQ(list.speedup_at(2), 0.9);
  EXPECT_EQ(list.speedup_at(16), 3) << "who needs fewer evaluations is not worse for it";
}

TEST(TaskScore, AGreedyAnswerIsNoSample) {
  std::vector<ContestSample> samples = {sample("a", 1, 0, 9), sample("a", 1, 1, 2)};
  const TaskScore both(samples);
  EXPECT_EQ(both.count(), 1);
  EXPECT_EQ(both.best(), 2);
  EXPECT_EQ(both.greedy_low(), 9);
}

TEST(Bootstrap, CoversTheMeanOfNormalData) {
  int covered = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    Rng rng(Seed::from_number(i));
    std::vector<double> xs(40);
    for (double& x : xs) x = 3 + rng.normal();
    const Interval interval = bootstrap_interval(xs, 0.05, 400, rng);
    covered += interval.low <= 3 && 3 <= interval.high;
    EXPECT_LT(interval.high - interval.low, 1.2);
  }
  EXPECT_NEAR(covered, 190, 14);
}

std::vector<ContestSample> two_entrants() {
  std::vector<ContestSample> samples;
  for (int task = 0; task < 4; ++task)
    for (int number = 1; number <= 2; ++number) {
      samples.push_back(sample("mine", task, number, task == 0 ? 0.5 : 2));
      samples.push_back(sample("evolve", task, number, task == 0 ? 4 : 1, true));
    }
  return samples;
}

TEST(Standing, ShowsLossesBeforeScores) {
  const auto text = *Standing(two_entrants()).table("mine");
  EXPECT_THAT(text, HasSubstr("| evolve | 1.000x"));  // half an octave three times, three octaves once
  EXPECT_THAT(text, HasSubstr("| 1/0/3 |"));
  EXPECT_THAT(text, HasSubstr("| task_0 | 0.50x | 4.00x | evolve |"));
  EXPECT_LT(text.find("against the others"), text.find("All entrants"));
  EXPECT_THAT(text, HasSubstr("All entrants: shapes, 2 tasks"));
}

TEST(Standing, SaysWhetherFewerEvaluationsDo) {
  std::vector<ContestSample> samples;
  for (int task = 0; task < 3; ++task)
    for (int number = 1; number <= 16; ++number) {
      samples.push_back(sample("mine", task, number, 2, true));
      samples.push_back(sample("evolve", task, number, number == 16 ? 4 : 1, true));
    }
  const auto text = *Standing(samples).table("mine");
  EXPECT_THAT(text, HasSubstr("| entrant | 1 | 4 | 16 |\n|---|---|---|---|\n"));
  EXPECT_THAT(text, HasSubstr("| against | 1 to 1 | 1 to 4 | 4 to 4 | 4 to 16 | 16 to 16 |"));
  const std::string twice = "2.000x [2.000, 2.000]", half = "0.500x [0.500, 0.500]";
  EXPECT_THAT(text, HasSubstr("| evolve | " + twice + " | " + twice + " | " + twice + " | " + half + " | " +
                              half + " |"));
}

TEST(Standing, ComparesOnlyTasksThatAllHave) {
  auto samples = two_entrants();
  samples.push_back(sample("mine", 7, 1, 100));
  const auto text = *Standing(samples).table("mine");
  EXPECT_THAT(text, HasSubstr("1 tasks that some entrant has not"));
  EXPECT_THAT(text, HasSubstr("| 1/0/3 |"));
}

TEST(Standing, HasEntrantsWithNothingCorrect) {
  std::vector<ContestSample> samples;
  for (int number = 0; number <= 2; ++number) {
    samples.push_back(sample("mine", 1, number, 0));
    samples.push_back(sample("other", 1, number, 2));
  }
  const auto text = *Standing(samples).table("mine");
  EXPECT_THAT(text, HasSubstr("| other | - | 1/0/0 | -100.0"));
  EXPECT_THAT(text, HasSubstr("| mine | 100.0% | 0.0% [0.0, 0.0] |"));
  EXPECT_THAT(text, HasSubstr("| task_1 | 0.00x | 2.00x | other |"));
}

TEST(Standing, NamesTheEntrantsWhereItHasNotTheOneAskedFor) {
  const auto text = Standing(two_entrants()).table("other");
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(text.error().hint, HasSubstr("evolve, mine"));
}

TEST(ContestSamples, ReadBackWhatWasWritten) {
  const TemporaryFolder folder;
  std::string lines;
  for (const ContestSample& one : two_entrants()) lines += json_text(to_json(one)) + "\n";
  ASSERT_TRUE(write_output(folder.path() + "/s.jsonl", lines).ok());
  const auto read = read_samples(folder.path() + "/s.jsonl");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(*Standing(*read).table("mine"), *Standing(two_entrants()).table("mine"));
  ASSERT_TRUE(write_output(folder.path() + "/bad.jsonl", lines + "{\"entrant\": 3}\n").ok());
  const auto bad = read_samples(folder.path() + "/bad.jsonl");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().where.line, 17);
}

}  // namespace
}  // namespace lathe
