#include "rl/choice_actor.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/rl/made_up_table.h"

namespace lathe::rl {
namespace {

/// Of the made-up task every third row: rows part at some decisions and not at others.
ScheduleTable sparse_table() {
  const ScheduleTable whole = made_up_table(1);
  std::vector<TableRow> rows;
  for (std::size_t r = 0; r < whole.tasks[0].rows().size(); r += 3) rows.push_back(whole.tasks[0].rows()[r]);
  ScheduleTable table{.device = "made up", .tasks = {}};
  table.tasks.push_back(
      *TableTask::make({"sparse", "map", digest_of("sparse"), "naive"}, whole.tasks[0].sites(), rows));
  return table;
}

/// With weights that favour some rows; the parameter is the temperature of joint scores, or 0.
class ChoiceActors : public testing::TestWithParam<double> {
 protected:
  ChoiceActors() {
    const std::string fresh = *actor_.save("");
    auto json = nlohmann::json::parse(fresh);
    auto net = *ChoiceNet::from_text(json["net"].get<std::string>());
    Rng rng(Seed::from_number(3));
    for (double& weight : net.weights()) weight = 0.4 * rng.normal();
    set(net);
  }

  void set(const ChoiceNet& net) {
    auto json = nlohmann::json::parse(*actor_.save(""));
    json["net"] = net.to_text();
    ASSERT_TRUE(actor_.restore(json.dump(), "").ok());
  }
  ChoiceNet net() { return *ChoiceNet::from_text(actor_.weights()); }

  double log_p(const Answer& answer) {
    const PromptedAnswer one{&prompt_, &answer};
    double sum = 0;
    const auto tokens = *actor_.log_probabilities(std::span(&one, 1));
    for (const double token : tokens.front()) sum += token;
    return sum;
  }

  const ScheduleTable table_ = sparse_table();
  ChoiceActor actor_{table_, Seed::from_number(1), {.hidden = 6, .joint_temperature = GetParam()}};
  const Prompt prompt_{.task = 0};
};

TEST_P(ChoiceActors, RowsAreDrawnAsOftenAsTheirTokensSay) {
  const std::vector<Prompt> prompts(20000, prompt_);
  const auto answers = actor_.sample(prompts, Seed::from_number(5));
  std::map<std::string, std::pair<int, double>> rows;
  for (const Answer& answer : *answers) {
    auto& [count, log_probability] = rows[answer.text];
    ++count;
    log_probability = log_p(answer);
  }
  double sum = 0, chi_squared = 0;
  for (const auto& [text, row] : rows) {
    const double expected = 20000 * std::exp(row.second);
    sum += std::exp(row.second);
    chi_squared += (row.first - expected) * (row.first - expected) / expected;
  }
  EXPECT_EQ(rows.size(), table_.tasks[0].rows().size());
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_LT(chi_squared, 40.3);  // 99% of 22 degrees of freedom
}

TEST_P(ChoiceActors, HaveTheGradientOfTheirLogProbabilities) {
  const auto answers = actor_.sample(std::vector<Prompt>(2, prompt_), Seed::from_number(8));
  std::vector<PromptedAnswer> asked;
  std::vector<std::vector<double>> by_log_p;
  for (const Answer& answer : *answers) {
    asked.push_back({&prompt_, &answer});
    by_log_p.emplace_back();
    for (std::size_t t = 0; t < answer.tokens.size(); ++t)
      by_log_p.back().push_back(0.3 + 0.5 * static_cast<double>(t + asked.size()));
  }
  constexpr double kEntropy = 0.7;
  const auto loss = [&] {
    const auto log_p = *actor_.log_probabilities(asked);
    double sum = 0;
    for (std::size_t i = 0; i < log_p.size(); ++i)
      for (std::size_t t = 0; t < log_p[i].size(); ++t) sum += by_log_p[i][t] * log_p[i][t];
    const std::vector<std::vector<double>> nothing = {std::vector<double>(by_log_p[0].size(), 0),
                                                      std::vector<double>(by_log_p[1].size(), 0)};
    return sum - kEntropy * *actor_.add_gradient(asked, nothing, 0);
  };

  // One step of Adam from rest moves each weight by the rate against the sign of its gradient.
  const ChoiceNet before = net();
  std::vector<double> slopes;
  for (std::size_t i = 0; i < before.weights().size(); ++i) {
    constexpr double kStep = 1e-5;
    ChoiceNet moved = before;
    moved.weights()[i] += kStep;
    set(moved);
    const double above = loss();
    moved.weights()[i] -= 2 * kStep;
    set(moved);
    slopes.push_back((above - loss()) / (2 * kStep));
  }
  set(before);
  ASSERT_TRUE(actor_.add_gradient(asked, by_log_p, kEntropy).ok());
  double squares = 0;
  for (const double slope : slopes) squares += slope * slope;
  EXPECT_NEAR(*actor_.update(1e-3, 0), std::sqrt(squares), 1e-6);
  const ChoiceNet after = net();
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    if (std::abs(slopes[i]) < 1e-5) continue;
    EXPECT_NEAR(after.weights()[i] - before.weights()[i], slopes[i] > 0 ? -1e-3 : 1e-3, 1e-6) << i;
  }
}

TEST_P(ChoiceActors, TheirGreedyAnswerIsTheLikeliestRow) {
  const std::string best = actor_.greedy(prompt_)->text;
  const auto answers = actor_.sample(std::vector<Prompt>(500, prompt_), Seed::from_number(5));
  double of_best = -INFINITY, most = -INFINITY;
  for (const Answer& answer : *answers) {
    most = std::max(most, log_p(answer));
    if (answer.text == best) of_best = log_p(answer);
  }
  EXPECT_EQ(of_best, most);
}

TEST_P(ChoiceActors, KeepTheirReferenceWhateverTheyLearnAndWhoeverGoesOn) {
  const auto answers = actor_.sample(std::vector<Prompt>(3, prompt_), Seed::from_number(8));
  std::vector<PromptedAnswer> asked;
  std::vector<std::vector<double>> by_log_p;
  for (const Answer& answer : *answers) {
    asked.push_back({&prompt_, &answer});
    by_log_p.emplace_back(answer.tokens.size(), -1);
  }
  EXPECT_FALSE(actor_.reference_log_probabilities(asked).ok());
  ASSERT_TRUE(actor_.keep_reference().ok());
  const auto before = *actor_.log_probabilities(asked);
  ASSERT_TRUE(actor_.add_gradient(asked, by_log_p, 0).ok());
  ASSERT_TRUE(actor_.update(0.1, 0).ok());
  EXPECT_NE(*actor_.log_probabilities(asked), before);
  EXPECT_EQ(*actor_.reference_log_probabilities(asked), before);

  ChoiceActor heir(table_, Seed::from_number(1), {.hidden = 6, .joint_temperature = GetParam()});
  ASSERT_TRUE(heir.keep_reference().ok());
  EXPECT_NE(*heir.reference_log_probabilities(asked), before);
  ASSERT_TRUE(heir.restore(*actor_.save(""), "").ok());
  EXPECT_EQ(*heir.reference_log_probabilities(asked), before);
}

TEST_P(ChoiceActors, RefuseTheStateOfAnotherNetwork) {
  ChoiceActor other(table_, Seed::from_number(1), {.hidden = 7});
  EXPECT_FALSE(actor_.restore(*other.save(""), "").ok());
  ChoiceActor otherwise_scored(table_, Seed::from_number(1),
                               {.hidden = 6, .joint_temperature = GetParam() + 1});
  EXPECT_FALSE(actor_.restore(*otherwise_scored.save(""), "").ok());
  EXPECT_FALSE(actor_.restore("{}", "").ok());
  EXPECT_FALSE(actor_.restore("no JSON", "").ok());
}

INSTANTIATE_TEST_SUITE_P(ScoresOf, ChoiceActors, testing::Values(0, 0.5),
                         [](const auto& one) { return one.param > 0 ? "Schedules" : "Decisions"; });

}  // namespace
}  // namespace lathe::rl
