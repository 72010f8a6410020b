#include <gtest/gtest.h>

#include <future>

#include "policy/policy.h"

namespace lathe {
namespace {

constexpr double kLong = 60;

ProposeFunction numbered(int& calls) {
  return [&calls](const ProposalRequest& request) -> Result<std::vector<Proposal>> {
    ++calls;
    return std::vector<Proposal>(static_cast<std::size_t>(request.count), Proposal{"text", {}});
  };
}

TEST(FunctionPolicy, OnItsCallerHasAnsweredWhenAskReturns) {
  int calls = 0;
  const auto policy = make_policy("p", numbered(calls), RunsOn::kCaller);
  const ProposalTicket first = policy->ask({.count = 2}), second = policy->ask({.count = 3});
  EXPECT_EQ(calls, 2);
  const auto answer = policy->poll(0);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->ticket, first);
  EXPECT_EQ(answer->proposals->size(), 2u);
  EXPECT_EQ(policy->poll(0)->ticket, second);
  EXPECT_FALSE(policy->poll(kLong)) << "nothing is under way, so there is nothing to wait for";
}

TEST(FunctionPolicy, OnAThreadWritesWhileItsOwnerGoesOn) {
  std::promise<void> may_answer;
  const auto policy = make_policy(
      "p",
      [&](const ProposalRequest&) -> Result<std::vector<Proposal>> {
        may_answer.get_future().wait();
        return std::vector<Proposal>{{"text", {}}};
      },
      RunsOn::kThread);
  const ProposalTicket ticket = policy->ask({});
  EXPECT_FALSE(policy->poll(0.001));
  may_answer.set_value();
  const auto answer = policy->poll(kLong);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->ticket, ticket);
}

TEST(FunctionPolicy, ThatEndsCancelsWhatItWrites) {
  std::promise<void> begun;
  std::atomic<bool> noticed = false;
  auto policy = make_policy(
      "p",
      [&](const ProposalRequest& request) -> Result<std::vector<Proposal>> {
        begun.set_value();
        while (!request.cancel.cancelled()) std::this_thread::yield();
        noticed = true;
        return Error{ErrorCode::kCancelled, "cancelled"};
      },
      RunsOn::kThread);
  policy->ask({});
  policy->ask({});
  begun.get_future().wait();
  policy.reset();
  EXPECT_TRUE(noticed) << "and the second request was never begun";
}

TEST(FunctionPolicy, ARequestThatIsCancelledWhileItWaitsIsNotAnswered) {
  int calls = 0;
  const auto policy = make_policy("p", numbered(calls), RunsOn::kThread);
  const CancelToken cancel;
  cancel.cancel();
  policy->ask({.cancel = cancel});
  const auto answer = policy->poll(kLong);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->proposals.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(calls, 0);
}

TEST(ProposeNow, WaitsForTheAnswerAndPassesItsError) {
  int calls = 0;
  const auto policy = make_policy("p", numbered(calls), RunsOn::kThread);
  EXPECT_EQ(propose_now(*policy, {.count = 4})->size(), 4u);
  const auto broken = make_policy(
      "p",
      [](const ProposalRequest&) {
        return Error{ErrorCode::kUnavailable, "no model here"};
      },
      RunsOn::kCaller);
  EXPECT_EQ(propose_now(*broken, {}).error().message, "no model here");
}

}  // namespace
}  // namespace lathe
