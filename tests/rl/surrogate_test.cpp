#include "rl/surrogate.h"

#include <gmock/gmock.h>

#include <cmath>

namespace lathe::rl {
namespace {

using testing::ElementsAre;

struct Case {
  const char* name;
  double ratio, advantage, loss;
};

class Surrogate : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Ratios, Surrogate,
    testing::Values(Case{"inside", 1.1, 2, -2.2}, Case{"above_and_good", 1.5, 2, -2 * 1.28},
                    Case{"below_and_good", 0.5, 2, -1.0}, Case{"above_and_bad", 1.5, -2, 3.0},
                    Case{"below_and_bad", 0.5, -2, 2 * 0.8}, Case{"far_above_and_bad", 10, -2, 6.0}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_P(Surrogate, IsClippedOnTheSideThatWouldGainTooMuch) {
  const auto& [name, ratio, advantage, loss] = GetParam();
  EXPECT_NEAR(surrogate(std::log(ratio), 0, advantage, {}).loss, loss, 1e-12);
}

TEST_P(Surrogate, HasTheDerivativeOfItsLoss) {
  const auto& [name, ratio, advantage, loss] = GetParam();
  for (const double kl : {0.0, 0.3}) {
    const SurrogateOptions options{.kl = kl};
    const auto at = [&](double log_p) { return surrogate(log_p, 0, advantage, options, -0.4).loss; };
    constexpr double kStep = 1e-6;
    const double slope = (at(std::log(ratio) + kStep) - at(std::log(ratio) - kStep)) / (2 * kStep);
    EXPECT_NEAR(surrogate(std::log(ratio), 0, advantage, options, -0.4).gradient, slope, 1e-6);
  }
}

TEST(Surrogate, OfFreshWeightsIsThePolicyGradient) {
  const TokenLoss token = surrogate(-1.5, -1.5, 0.7, {});
  EXPECT_DOUBLE_EQ(token.gradient, -0.7);
}

TEST(Surrogate, WithoutADualClipABadAnswersLossHasNoBound) {
  EXPECT_NEAR(surrogate(std::log(10), 0, -2, {.dual_clip = 0}).loss, 20, 1e-12);
}

TEST(K3, IsNoughtAtTheReferenceAndPositiveElsewhere) {
  EXPECT_EQ(k3(-1.5, -1.5), 0);
  for (const double log_p : {-9.0, -2.0, -1.0, -0.1}) EXPECT_GT(k3(log_p, -1.5), 0) << log_p;
}

TEST(K3, IsOnAverageTheDivergence) {
  const std::vector<double> p = {0.5, 0.3, 0.2}, reference = {0.1, 0.6, 0.3};
  double estimate = 0, divergence = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    estimate += p[i] * k3(std::log(p[i]), std::log(reference[i]));
    divergence += p[i] * std::log(p[i] / reference[i]);
  }
  EXPECT_NEAR(estimate, divergence, 1e-12);
}

TEST(TokenWeights, CountTokensOrAnswersAlike) {
  const std::vector<std::size_t> tokens = {1, 0, 4};
  EXPECT_THAT(token_weights(tokens, LossMean::kTokens), ElementsAre(0.2, 0, 0.2));
  EXPECT_THAT(token_weights(tokens, LossMean::kSequences), ElementsAre(0.5, 0, 0.125));
}

TEST(TokenWeights, OfNothingAreNothing) {
  const std::vector<std::size_t> none = {0, 0};
  EXPECT_THAT(token_weights(none, LossMean::kTokens), ElementsAre(0, 0));
}

}  // namespace
}  // namespace lathe::rl
