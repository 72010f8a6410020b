#include "rl/estimator.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "base/random.h"

namespace lathe::rl {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

/// A problem small enough to be solved exactly: the first turn chooses one of three actions; after
/// the first of them the sequence ends, after the others a second turn chooses again.
struct Tabular {
  static constexpr std::size_t kActions = 3;
  using Row = std::array<double, kActions>;

  bool one_turn = false;  ///< all actions end the sequence

  /// Scores of the actions: of the first turn, then of the second after action 1 and after action 2.
  std::array<Row, 3> scores = {{{0.3, -0.2, 0.1}, {0.5, 0, -0.4}, {-0.1, 0.7, 0.2}}};
  std::array<Row, 3> rewards = {{{1.0, 0.2, 0.5}, {0, 2, 1}, {3, 0.5, 0.1}}};

  struct Trajectory {
    double probability = 0;
    std::vector<std::pair<std::size_t, std::size_t>> choices;  ///< state, action
  };

  Row probabilities(std::size_t state) const {
    Row p{};
    double sum = 0;
    for (std::size_t a = 0; a < kActions; ++a) sum += p[a] = std::exp(scores[state][a]);
    for (double& one : p) one /= sum;
    return p;
  }

  std::vector<Trajectory> all() const {
    std::vector<Trajectory> trajectories;
    const Row first = probabilities(0);
    for (std::size_t a = 0; a < kActions; ++a) {
      if (a == 0 || one_turn) {
        trajectories.push_back({first[a], {{0, a}}});
        continue;
      }
      const Row second = probabilities(a);
      for (std::size_t b = 0; b < kActions; ++b)
        trajectories.push_back({first[a] * second[b], {{0, a}, {a, b}}});
    }
    return trajectories;
  }

  double value() const {
    double sum = 0;
    for (const Trajectory& trajectory : all())
      for (const auto& [state, action] : trajectory.choices)
        sum += trajectory.probability * rewards[state][action];
    return sum;
  }

  /// The expected best reward of `count` sequences of one turn.
  double best_of(int count) const {
    double sum = 0;
    const std::function<void(int, double, double)> extend = [&](int left, double probability, double best) {
      if (left == 0) {
        sum += probability * best;
        return;
      }
      const Row p = probabilities(0);
      for (std::size_t a = 0; a < kActions; ++a)
        extend(left - 1, probability * p[a], std::max(best, rewards[0][a]));
    };
    extend(count, 1, -1e9);
    return sum;
  }
};

using Gradient = std::array<Tabular::Row, 3>;

/// By differences: nothing that the estimators share.
Gradient exact_gradient(Tabular problem,
                        const std::function<double(const Tabular&)>& value = &Tabular::value) {
  Gradient gradient{};
  constexpr double kStep = 1e-5;
  for (std::size_t s = 0; s < 3; ++s)
    for (std::size_t a = 0; a < 3; ++a) {
      double& score = problem.scores[s][a];
      const double at = score;
      score = at + kStep;
      const double above = value(problem);
      score = at - kStep;
      gradient[s][a] = (above - value(problem)) / (2 * kStep);
      score = at;
    }
  return gradient;
}

/// A batch's policy gradient per sequence.
Gradient batch_gradient(const Tabular& problem, const Estimator& estimator,
                        const std::vector<const Tabular::Trajectory*>& batch) {
  std::vector<Turn> turns;
  std::vector<std::pair<std::size_t, std::size_t>> choices;
  for (std::size_t i = 0; i < batch.size(); ++i)
    for (std::size_t t = 0; t < batch[i]->choices.size(); ++t) {
      const auto [state, action] = batch[i]->choices[t];
      turns.push_back(
          {0, static_cast<std::int64_t>(i), static_cast<std::int64_t>(t), problem.rewards[state][action]});
      choices.push_back(batch[i]->choices[t]);
    }
  const auto advantages = estimator.function(turns, returns(turns, 1));
  Gradient gradient{};
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const auto [state, action] = choices[i];
    const auto p = problem.probabilities(state);
    for (std::size_t a = 0; a < Tabular::kActions; ++a)
      gradient[state][a] +=
          *advantages[i] * ((a == action ? 1.0 : 0.0) - p[a]) / static_cast<double>(batch.size());
  }
  return gradient;
}

/// Over all batches of `size` sequences, each with its probability.
Gradient expected_gradient(const Tabular& problem, std::string_view name, int size) {
  const Estimator estimator = *find_estimator(name);
  const auto all = problem.all();
  Gradient expected{};
  std::vector<const Tabular::Trajectory*> batch;
  const std::function<void(double)> extend = [&](double probability) {
    if (static_cast<int>(batch.size()) == size) {
      const Gradient one = batch_gradient(problem, estimator, batch);
      for (std::size_t s = 0; s < 3; ++s)
        for (std::size_t a = 0; a < 3; ++a) expected[s][a] += probability * one[s][a];
      return;
    }
    for (const auto& trajectory : all) {
      batch.push_back(&trajectory);
      extend(probability * trajectory.probability);
      batch.pop_back();
    }
  };
  extend(1);
  return expected;
}

void expect_scaled(const Gradient& got, const Gradient& exact, const std::array<double, 3>& factors) {
  for (std::size_t s = 0; s < 3; ++s)
    for (std::size_t a = 0; a < 3; ++a) EXPECT_NEAR(got[s][a], factors[s] * exact[s][a], 1e-9) << s << a;
}

class Unbiased : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Estimators, Unbiased, testing::Values("reinforce", "rloo", "trloo"));

TEST_P(Unbiased, ItsExpectationIsTheGradientOfTheExpectedReward) {
  const Tabular problem;
  for (const int size : {1, 2, 3, 4})
    expect_scaled(expected_gradient(problem, GetParam(), size), exact_gradient(problem), {1, 1, 1});
}

TEST(BestOf, ItsExpectationIsTheGradientOfTheExpectedBest) {
  const Tabular problem{.one_turn = true};
  const auto best_of_4 = [](const Tabular& one) { return one.best_of(4); };
  for (const int size : {5, 6, 7})
    expect_scaled(expected_gradient(problem, "best_of_4", size), exact_gradient(problem, best_of_4),
                  {1, 0, 0});
}

TEST(BestOf, ASmallGroupStandsForAsManyAsItHas) {
  const Tabular problem{.one_turn = true};
  const auto best_of_3 = [](const Tabular& one) { return one.best_of(3); };
  expect_scaled(expected_gradient(problem, "best_of_16", 4), exact_gradient(problem, best_of_3), {1, 0, 0});
  expect_scaled(expected_gradient(problem, "best_of_4", 2), exact_gradient(problem), {1, 0, 0});
}

TEST(Grpo, ShrinksTheGradientOfATurnByOneMinusOneOverItsGroup) {
  const Tabular problem;
  for (const int size : {2, 3, 4}) {
    const Gradient got = expected_gradient(problem, "grpo_no_std", size);
    const Gradient exact = exact_gradient(problem);
    for (std::size_t a = 0; a < 3; ++a) EXPECT_NEAR(got[0][a], (1 - 1.0 / size) * exact[0][a], 1e-9);
  }
}

/// Sequences that ended leave a smaller group at the second turn, so that its factor is smaller
/// than the first turn's: E[1 - 1/N] over the number of others that get there.
TEST(Grpo, ShrinksLaterTurnsMoreThanTheFirst) {
  const Tabular problem;
  constexpr int kSize = 4;
  const double goes_on = 1 - problem.probabilities(0)[0];
  double factor = 0;
  for (int others = 0; others < kSize; ++others) {
    const double ways = std::tgamma(kSize) / std::tgamma(others + 1) / std::tgamma(kSize - others);
    factor +=
        ways * std::pow(goes_on, others) * std::pow(1 - goes_on, kSize - 1 - others) * others / (others + 1);
  }
  ASSERT_LT(factor, 1 - 1.0 / kSize);
  const Gradient got = expected_gradient(problem, "grpo_no_std", kSize);
  const Gradient exact = exact_gradient(problem);
  for (std::size_t a = 0; a < 3; ++a) EXPECT_NEAR(got[1][a], factor * exact[1][a], 1e-9);
}

TEST(Trloo, HasNoMoreVarianceThanReinforce) {
  const Tabular problem;
  const auto all = problem.all();
  Rng rng(Seed::from_number(11));
  std::map<std::string, double> squares;
  for (int i = 0; i < 2000; ++i) {
    std::vector<const Tabular::Trajectory*> batch;
    for (int k = 0; k < 4; ++k) {
      double rest = rng.uniform();
      std::size_t at = 0;
      while (at + 1 < all.size() && (rest -= all[at].probability) > 0) ++at;
      batch.push_back(&all[at]);
    }
    for (const char* name : {"reinforce", "trloo"}) {
      const Gradient one = batch_gradient(problem, *find_estimator(name), batch);
      for (const auto& row : one)
        for (const double g : row) squares[name] += g * g;
    }
  }
  EXPECT_LT(squares["trloo"], 0.7 * squares["reinforce"]);
}

TEST(Returns, DiscountWhatComesLater) {
  const std::vector<Turn> turns = {{0, 7, 1, 10.0}, {0, 7, 0, 1.0}, {0, 8, 0, 5.0}, {0, 7, 2, 100.0}};
  EXPECT_THAT(returns(turns, 0.5),
              ElementsAre(Optional(60.0), Optional(31.0), Optional(5.0), Optional(100.0)));
  EXPECT_THAT(returns(turns, 0), ElementsAre(Optional(10.0), Optional(1.0), Optional(5.0), Optional(100.0)));
}

TEST(Returns, WhatTheMachineLostIsNoReward) {
  const std::vector<Turn> turns = {{0, 1, 0, 1.0}, {0, 1, 1, std::nullopt}, {0, 1, 2, 4.0}};
  EXPECT_THAT(returns(turns, 1), ElementsAre(std::nullopt, std::nullopt, Optional(4.0)));
  EXPECT_THAT(returns(turns, 0), ElementsAre(Optional(1.0), std::nullopt, Optional(4.0)));
}

class EveryEstimator : public testing::TestWithParam<Estimator> {};
INSTANTIATE_TEST_SUITE_P(Named, EveryEstimator, testing::ValuesIn(estimators().begin(), estimators().end()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(EveryEstimator, LeavesLostTurnsOutOfOthersBaselines) {
  const std::vector<Turn> turns = {{0, 0, 0, 1.0}, {0, 1, 0, 2.0}, {0, 2, 0, 4.0}};
  std::vector<Turn> more = turns;
  more.push_back({0, 3, 0, std::nullopt});
  auto with = GetParam().function(more, returns(more, 1));
  ASSERT_EQ(with.back(), std::nullopt);
  with.pop_back();
  EXPECT_EQ(with, GetParam().function(turns, returns(turns, 1)));
}

TEST_P(EveryEstimator, ComparesAnswersToOnePromptAlone) {
  const std::vector<Turn> turns = {{0, 0, 0, 1.0}, {0, 1, 0, 2.0}};
  std::vector<Turn> more = turns;
  more.push_back({1, 2, 0, 100.0});
  auto with = GetParam().function(more, returns(more, 1));
  with.pop_back();
  EXPECT_EQ(with, GetParam().function(turns, returns(turns, 1)));
}

TEST_P(EveryEstimator, IsFiniteForOneAnswerAndForEqualRewards) {
  const std::vector<Turn> one = {{0, 0, 0, 3.0}};
  EXPECT_TRUE(std::isfinite(*GetParam().function(one, returns(one, 1))[0]));
  const std::vector<Turn> equal = {{0, 0, 0, 3.0}, {0, 1, 0, 3.0}};
  for (const auto& advantage : GetParam().function(equal, returns(equal, 1)))
    EXPECT_THAT(advantage, Optional(GetParam().name == "reinforce" ? DoubleNear(3, 0) : DoubleNear(0, 1e-9)));
}

TEST(Trloo, AnAnswerAloneKeepsItsReturn) {
  const std::vector<Turn> one = {{0, 0, 0, 3.0}};
  EXPECT_THAT(find_estimator("trloo")->function(one, returns(one, 1)), ElementsAre(Optional(3.0)));
}

TEST(FindEstimator, NamesAllThatThereAre) {
  const auto found = find_estimator("ppo");
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().hint, HasSubstr("trloo"));
}

}  // namespace
}  // namespace lathe::rl
