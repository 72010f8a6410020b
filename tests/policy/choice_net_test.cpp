#include "policy/choice_net.h"

#include <gmock/gmock.h>

#include <cmath>

namespace lathe {
namespace {

using testing::Each;
using testing::HasSubstr;

const ChoiceSite kUnroll{.kernel = 0,
                         .pattern = "map",
                         .traits = {20, 22, 0},
                         .knob = "unroll",
                         .allowed = {1, 2, 4, 8},
                         .usual = 4};
const ChoiceSite kStream{
    .kernel = 0, .pattern = "map", .traits = {20, 22, 0}, .knob = "stream", .allowed = {0, 1}, .usual = 0};

/// Weights that leave no symmetry for a wrong gradient to hide in.
ChoiceNet net_of(std::uint64_t seed) {
  ChoiceNet net(Seed::from_number(seed), 5);
  Rng rng(Seed::from_number(seed + 1));
  for (double& weight : net.weights()) weight = 0.5 * rng.normal();
  return net;
}

TEST(ChoiceNet, FindsAllValuesEquallyLikelyAtFirst) {
  const ChoiceNet net(Seed::from_number(1));
  EXPECT_THAT(net.terms({kUnroll, {}}), Each(testing::DoubleNear(std::log(0.25), 1e-12)));
}

TEST(ChoiceNet, TellsWhatWasTakenAndShownApart) {
  const ChoiceNet net = net_of(3);
  const std::vector<std::pair<ChoiceSite, int>> taken = {{kStream, 1}};
  const std::vector<ShownChoices> shown = {{{{kUnroll, 8}}, 0.5}};
  const auto alone = net.terms({kUnroll, {}});
  EXPECT_NE(alone, net.terms({kUnroll, taken}));
  EXPECT_NE(alone, net.terms({kUnroll, {}, shown}));
}

TEST(ChoiceNet, HasTheGradientOfItsLogProbabilities) {
  ChoiceNet net = net_of(4);
  const std::vector<std::pair<ChoiceSite, int>> taken = {{kStream, 1}};
  const std::vector<ShownChoices> shown = {{{{kUnroll, 8}}, 0.5}, {{{kUnroll, 2}}, -0.25}};
  const ChoiceView view{kUnroll, taken, shown};
  constexpr std::size_t kChosen = 2;

  std::vector<double> gradient(net.weights().size(), 0);
  const auto log_p = net.terms(view);
  for (std::size_t v = 0; v < log_p.size(); ++v) {
    ChoiceInput input = ChoiceNet::input(kUnroll, taken, v);
    ChoiceNet::add_shown(input, kUnroll, v, shown);
    net.add_gradient(input, (v == kChosen ? 1 : 0) - std::exp(log_p[v]), gradient);
  }

  constexpr double kStep = 1e-6;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double weight = net.weights()[i];
    const auto at = [&](double value) {
      net.weights()[i] = value;
      return net.terms(view)[kChosen];
    };
    const double slope = (at(weight + kStep) - at(weight - kStep)) / (2 * kStep);
    net.weights()[i] = weight;
    EXPECT_NEAR(gradient[i], slope, 1e-7) << i;
  }
}

TEST(ChoiceNet, IsReadBackBitByBit) {
  const ChoiceNet net = net_of(5);
  const auto read = ChoiceNet::from_text(net.to_text());
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->weights(), net.weights());
  EXPECT_EQ(read->joint_temperature(), 0);
  const ChoiceNet joint(Seed::from_number(5), 3, 0.25);
  EXPECT_EQ(ChoiceNet::from_text(joint.to_text())->joint_temperature(), 0.25);
}

TEST(ChoiceNet, ScoresOfWholeSchedulesAreNoDistributionOverADecisionsValues) {
  const ChoiceNet joint(Seed::from_number(5), 3, 0.5);
  EXPECT_EQ(joint.terms(std::vector<double>{1, 3}), (std::vector<double>{2, 6}));
  const ChoiceNet own(Seed::from_number(5), 3);
  EXPECT_NEAR(std::exp(own.terms(std::vector<double>{1, 3})[1]), std::exp(2) / (1 + std::exp(2)), 1e-12);
}

TEST(ChoiceNet, RefusesWhatIsNoNetwork) {
  for (
      const char* text :
      {"", "[]", "{", R"({"weights": []})", R"({"format": "lathe choice net", "version": 1, "weights": []})",
       R"({"format": "lathe choice net", "version": 1, "hidden": 2, "weights": [1, 2]})",
       R"({"format": "lathe choice net", "version": 1, "hidden": 1e99, "weights": []})",
       R"({"format": "lathe choice net", "version": 2, "hidden": 2, "weights": [], "joint_temperature": -1})",
       R"({"format": 3, "version": 1, "hidden": 2, "weights": []})"})
    EXPECT_FALSE(ChoiceNet::from_text(text).ok()) << text;
}

}  // namespace
}  // namespace lathe
