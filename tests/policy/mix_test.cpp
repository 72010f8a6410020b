#include "policy/mix.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lathe {
namespace {

std::unique_ptr<Policy> named(const std::string& name) {
  return make_policy(
      name,
      [name](const ProposalRequest& request) -> Result<std::vector<Proposal>> {
        return std::vector<Proposal>(static_cast<std::size_t>(request.count), Proposal{name, {}});
      },
      RunsOn::kThread);
}

std::string author(Policy& policy, ProposalRequest request) {
  const auto proposals = propose_now(policy, std::move(request));
  return proposals.ok() ? proposals->at(0).text : proposals.error().message;
}

TEST(MixedPolicy, GivesEachAShareOfBeginningsByTheirSeed) {
  const auto mix = make_mixed_policy(named("beginner"), named("writer"), 0.25);
  EXPECT_EQ(mix->name(), "mix(beginner, writer)");
  int begun = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed)
    begun += author(*mix, {.seed = Seed::from_number(seed)}) == "beginner";
  EXPECT_GT(begun, 70);
  EXPECT_LT(begun, 130);
  const ProposalRequest same{.seed = Seed::from_number(5)};
  EXPECT_EQ(author(*mix, same), author(*mix, same));
}

TEST(MixedPolicy, AsksTheWriterWhereThereIsSomethingToLearnFrom) {
  const auto mix = make_mixed_policy(named("beginner"), named("writer"), 1);
  const History history = {std::make_shared<const Attempt>()};
  EXPECT_EQ(author(*mix, {.history = history}), "writer");
  EXPECT_EQ(author(*mix, {.history = history, .independent = true}), "beginner");
}

TEST(MixedPolicy, AnswersManyRequestsEachOnce) {
  const auto mix = make_mixed_policy(named("beginner"), named("writer"));
  std::vector<ProposalTicket> asked, answered;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    asked.push_back(mix->ask({.seed = Seed::from_number(seed)}));
  while (answered.size() < asked.size())
    if (const auto answer = mix->poll(1)) answered.push_back(answer->ticket);
  std::sort(answered.begin(), answered.end());
  EXPECT_EQ(answered, asked);
  EXPECT_FALSE(mix->poll(0).has_value());
}

}  // namespace
}  // namespace lathe
