#include "policy/catalog/choice_policy.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "policy/catalog/catalog.h"
#include "policy/catalog/choice_space.h"

namespace lathe {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class ChoicePolicy : public testing::Test {
 protected:
  ChoicePolicy() {
    context_.task = std::make_shared<const TaskSpec>(*load_task(LATHE_SOURCE_DIR "/tasks/layer_norm.toml"));
    context_.device.threads = 1;
  }

  static ChoiceNet net() {
    ChoiceNet net(Seed::from_number(1), 6);
    Rng rng(Seed::from_number(2));
    for (double& weight : net.weights()) weight = rng.normal();
    return net;
  }

  /// As if it had never been trained with examples.
  static ChoiceNet untold(ChoiceNet net) {
    const std::vector<double> fresh = ChoiceNet(Seed::from_number(1), 6).weights();
    for (std::size_t i = 0; i + 12 < fresh.size(); ++i)  // the last are the bias and the output
      if (fresh[i] == 0) net.weights()[i] = 0;
    return net;
  }

  std::vector<std::string> texts(Policy& policy, ProposalRequest request) {
    request.context = context_;
    const auto proposals = propose_now(policy, std::move(request));
    EXPECT_TRUE(proposals.ok()) << proposals.error().to_string();
    std::vector<std::string> texts;
    for (const Proposal& proposal : *proposals) texts.push_back(proposal.text);
    return texts;
  }

  /// What is written where nobody chooses.
  std::string usual() const { return (*make_schedule_space(context_))->begin()->text(); }

  PolicyContext context_;
};

TEST_F(ChoicePolicy, DrawsKernelsOfTheCatalogueAndNoneTwice) {
  const auto policy = make_choice_policy({net()});
  const auto drawn = texts(*policy, {.count = 12, .seed = Seed::from_number(1)});
  EXPECT_EQ(std::set(drawn.begin(), drawn.end()).size(), drawn.size());
  const auto space = make_schedule_space(context_);
  for (const std::string& text : drawn) EXPECT_TRUE((*space)->decisions_of(text).ok());
  EXPECT_EQ(drawn, texts(*policy, {.count = 12, .seed = Seed::from_number(1)}));
}

TEST_F(ChoicePolicy, GoesFromTheLikeliestOn) {
  const auto policy = make_choice_policy({net()});
  const auto drawn = texts(*policy, {.count = 400, .independent = true, .seed = Seed::from_number(9)});
  std::map<std::string, int> counts;
  for (const std::string& text : drawn) ++counts[text];
  const auto ranked = texts(*policy, {.count = 3, .seed = Seed::from_number(1)});
  EXPECT_EQ(ranked, texts(*policy, {.count = 3, .seed = Seed::from_number(2)}));
  const int mode = std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; })->second;
  EXPECT_EQ(ranked[0], usual());
  EXPECT_LT(counts[usual()], mode);
  EXPECT_EQ(counts[ranked[1]], mode);
  EXPECT_GT(counts[ranked[2]], mode / 4);
}

TEST_F(ChoicePolicy, GoesOnBehindWhatHasBeenSeen) {
  const auto policy = make_choice_policy({untold(net())});
  const auto ranked = texts(*policy, {.count = 6});
  auto seen = std::make_shared<Attempt>();
  seen->experience.candidate_text = ranked[0];
  const auto rest = texts(*policy, {.history = {seen}, .count = 5});
  EXPECT_EQ(rest, std::vector(ranked.begin() + 1, ranked.end()));
}

TEST_F(ChoicePolicy, WhatMoreNetworksFindLikelyComesFirst) {
  ChoiceNet other = untold(net());
  for (auto weight = other.weights().end() - 6; weight != other.weights().end(); ++weight) *weight *= -1;
  const auto favourite = [&](const ChoiceNet& one) {
    return texts(*make_choice_policy({one}), {.count = 2})[1];
  };
  const std::string mine = favourite(untold(net())), its = favourite(other);
  ASSERT_NE(mine, its);
  EXPECT_EQ(texts(*make_choice_policy({untold(net()), untold(net()), other}), {.count = 2}),
            (std::vector{usual(), mine}))
      << "two of three agree";
  const auto both = make_choice_policy({untold(net()), other});
  const auto together = texts(*both, {.count = 3});
  EXPECT_EQ((std::set{together[1], together[2]}), (std::set{mine, its}));
  auto seen = std::make_shared<Attempt>();
  seen->experience.candidate_text = together[0];
  EXPECT_EQ(texts(*both, {.history = {seen}, .count = 1}), std::vector{together[1]});
}

TEST_F(ChoicePolicy, AtTemperatureZeroHasOneAnswer) {
  const auto policy = make_choice_policy({net()});
  const auto drawn =
      texts(*policy, {.count = 3, .independent = true, .seed = Seed::from_number(1), .temperature = 0.0});
  ASSERT_THAT(drawn, SizeIs(3));
  EXPECT_EQ(std::set(drawn.begin(), drawn.end()).size(), 1U);
}

TEST_F(ChoicePolicy, IsTouchedByWhatItIsShownUnlessItDrawsIndependently) {
  const auto policy = make_choice_policy({net()});
  auto attempt = std::make_shared<Attempt>();
  attempt->experience.candidate_text =
      propose_now(*make_catalog_policy(), {.context = context_})->front().text;
  attempt->fitness = 2;
  const ProposalRequest alone{.count = 4, .seed = Seed::from_number(3)};
  ProposalRequest told = alone;
  told.history = {attempt};
  EXPECT_NE(texts(*policy, alone), texts(*policy, told));
  told.independent = true;
  ProposalRequest independent = alone;
  independent.independent = true;
  EXPECT_EQ(texts(*policy, independent), texts(*policy, told));
}

TEST_F(ChoicePolicy, VariesKernelsAsTheCatalogueDoes) {
  const auto policy = make_choice_policy({net()});
  Experience parent;
  parent.candidate_text = texts(*policy, {.count = 1}).front();
  Rng rng(Seed::from_number(1));
  const auto child = policy->variation()->mutate(context_, parent, rng);
  ASSERT_TRUE(child.ok()) << child.error().to_string();
  EXPECT_NE(child->text, parent.candidate_text);
}

}  // namespace
}  // namespace lathe
