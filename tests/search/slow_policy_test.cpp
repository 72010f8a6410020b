#include <gmock/gmock.h>

#include <deque>

#include "gym/gym.h"
#include "search/search.h"
#include "tests/gym/fake_task.h"
#include "tests/search/ladder_policy.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

/// Answers a request once `may_answer` says so; fails the test when it is polled too often before.
class ScriptedPolicy final : public Policy {
 public:
  using MayAnswer = std::function<bool(std::size_t request)>;
  explicit ScriptedPolicy(MayAnswer may_answer = [](std::size_t) { return true; })
      : may_answer_(std::move(may_answer)) {}

  std::string name() const override { return "scripted"; }
  ProposalTicket ask(ProposalRequest request) override {
    requests_.push_back(std::move(request));
    return static_cast<ProposalTicket>(requests_.size());
  }
  std::optional<Proposed> poll(double) override {
    EXPECT_LT(++polls_, 10'000) << "nobody lets the policy answer";
    if (polls_ >= 10'000) return fail(answered_ + 1);
    if (answered_ == requests_.size() || !may_answer_(answered_)) return std::nullopt;
    const ProposalRequest& request = requests_[answered_++];
    std::vector<Proposal> proposals;
    for (int i = 0; i < request.count; ++i) proposals.push_back(write(given_++));
    return Proposed{static_cast<ProposalTicket>(answered_), std::move(proposals)};
  }

  std::function<Proposal(int)> write = [](int number) { return Ladder::proposal(number); };
  int given() const { return given_; }
  const std::vector<ProposalRequest>& requests() const { return requests_; }

 private:
  static Proposed fail(std::size_t ticket) {
    return {static_cast<ProposalTicket>(ticket), Error{ErrorCode::kInternal, "polled too often"}};
  }
  const MayAnswer may_answer_;
  std::vector<ProposalRequest> requests_;
  std::size_t answered_ = 0;
  int given_ = 0, polls_ = 0;
};

/// Passes everything at its second poll, the first submitted first.
class ScriptedEvaluator final : public Evaluator {
 public:
  Result<Ticket> submit(EvaluationRequest request) override {
    if (in_flight() >= room) return Error{ErrorCode::kBusy, "full"};
    requests.push_back(request);
    waiting_.push_back({++tickets_, std::move(request)});
    return tickets_;
  }
  std::optional<Evaluated> poll(double) override {
    on_poll();
    if (waiting_.empty() || ++polls_ % 2 != 0) return std::nullopt;
    const auto [ticket, request] = std::move(waiting_.front());
    waiting_.pop_front();
    if (request.cancel.cancelled()) return Evaluated{ticket, Error{ErrorCode::kCancelled, "cancelled"}};
    Verdict verdict;
    verdict.outcome = Outcome::kPass;
    verdict.reason = "ok";
    verdict.depth = request.depth;
    verdict.candidate = digest_of(request.text);
    verdict.task = request.task->digest;
    const double speed = 1 + Ladder::rung_of(request.text);
    verdict.speedups = {{"naive", "small", {speed, speed, speed}}};
    return Evaluated{ticket, std::move(verdict)};
  }
  int in_flight() const override { return static_cast<int>(waiting_.size()); }
  void prepare(std::shared_ptr<const TaskSpec>) override {}
  Result<TaskBaselines> baselines(std::shared_ptr<const TaskSpec>, const CancelToken&) override {
    return TaskBaselines{{}, "naive"};
  }

  int room = 100;
  std::function<void()> on_poll = [] {};
  std::vector<EvaluationRequest> requests;

 private:
  std::deque<std::pair<Ticket, EvaluationRequest>> waiting_;
  Ticket tickets_ = 0;
  int polls_ = 0;
};

class SlowPolicyTest : public testing::Test {
 protected:
  SlowPolicyTest() {
    EXPECT_TRUE(store_->create_run(make_run("r")).ok());
    options_.max_evaluations = 10;
    options_.in_flight = 3;
    options_.confirmations = 1;
  }

  Result<SearchSummary> search(Policy& policy, const std::string& strategy = "random") {
    const auto strategies = make_strategy(strategy);
    const PolicyContext policy_context{shared_twice_task(), DeviceInfo{}, DevicePeaks{}};
    const SearchContext context{policy_context, policy,      **strategies, evaluator_,
                                *store_,        null_sink(), stop_};
    return run_search(context, "r", options_);
  }
  std::size_t stored() { return store_->experiences("r")->size(); }

  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = open_or_fail(folder_.path());
  ScriptedEvaluator evaluator_;
  SearchOptions options_;
  CancelToken stop_;
};

TEST_F(SlowPolicyTest, VerdictsAreStoredWhileItWrites) {
  ScriptedPolicy policy([&](std::size_t request) { return request < 3 || stored() >= request; });
  const auto summary = search(policy);
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  EXPECT_EQ(summary->evaluations, 10);
  EXPECT_EQ(stored(), 11u) << "one is confirmed";
}

TEST_F(SlowPolicyTest, TheDeviceHasWorkWheneverAProposalIsThere) {
  ScriptedPolicy policy;
  const auto screens = [&] {
    return std::ranges::count(evaluator_.requests, Depth::kScreen, &EvaluationRequest::depth);
  };
  evaluator_.on_poll = [&] {
    const bool proposals_wait = policy.given() > screens() && screens() < options_.max_evaluations;
    EXPECT_TRUE(!proposals_wait || evaluator_.in_flight() == options_.in_flight);
  };
  ASSERT_TRUE(search(policy, "best-of-n").ok());
  EXPECT_EQ(screens(), 10);
}

TEST_F(SlowPolicyTest, IsAskedForNoMoreThanTheBudgetHasRoomFor) {
  ScriptedPolicy policy;
  ASSERT_TRUE(search(policy).ok());
  EXPECT_EQ(policy.given(), 10);
}

TEST_F(SlowPolicyTest, SeesTheHistoryOfTheRunWithItsFitness) {
  ScriptedPolicy policy;
  ASSERT_TRUE(search(policy).ok());
  EXPECT_TRUE(policy.requests().front().history.empty());
  const ProposalRequest& last = policy.requests().back();
  ASSERT_GE(last.history.size(), 7u) << "all that was not in flight";
  EXPECT_EQ(last.history[1]->experience.candidate_text, Ladder::text(1));
  EXPECT_DOUBLE_EQ(last.history[1]->fitness, 2);
  EXPECT_EQ(last.context.task->name, "twice");
  EXPECT_NE(last.group, policy.requests().front().group);
}

TEST_F(SlowPolicyTest, IsNotWaitedForWhenTheUserStops) {
  ScriptedPolicy policy([&](std::size_t request) {
    if (request == 1) stop_.cancel();
    return request < 1;
  });
  const auto summary = search(policy);
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  EXPECT_TRUE(summary->interrupted);
  EXPECT_TRUE(policy.requests().back().cancel.cancelled());
  EXPECT_LE(stored(), 1u);
}

TEST_F(SlowPolicyTest, ItsErrorEndsTheSearch) {
  auto policy = make_policy(
      "broken",
      [](const ProposalRequest&) {
        return Error{ErrorCode::kUnavailable, "no model here"};
      },
      RunsOn::kThread);
  const auto summary = search(*policy);
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().message, "no model here");
}

TEST_F(SlowPolicyTest, WhatAModelWroteIsStoredWithItsTokens) {
  ScriptedPolicy policy;
  policy.write = [](int number) {
    Proposal proposal = Ladder::proposal(number);
    proposal.generation =
        Generation{.model = "m", .turn = number, .answer_tokens = pack<std::int32_t>({1, 2})};
    return proposal;
  };
  ASSERT_TRUE(search(policy).ok());
  const auto rows = *store_->experiences("r");
  ASSERT_TRUE(rows[2].generation.has_value());
  EXPECT_EQ(rows[2].generation->turn, 2);
  EXPECT_EQ(unpack<std::int32_t>(*store_->get_blob(rows[2].generation->answer_tokens.digest))->back(), 2);
  EXPECT_FALSE(rows.back().generation.has_value()) << "a confirmation was not written again";
}

TEST_F(SlowPolicyTest, WithoutVariationServesAllButEvolve) {
  ScriptedPolicy policy;
  const auto evolved = search(policy, "evolve");
  ASSERT_FALSE(evolved.ok());
  EXPECT_THAT(evolved.error().message, testing::HasSubstr("'scripted' cannot"));
  EXPECT_THAT(evolved.error().hint, testing::HasSubstr("best-of-n"));
  EXPECT_TRUE(search(policy, "best-of-n").ok());
}

TEST_F(SlowPolicyTest, ABusyEvaluatorIsAskedAgain) {
  evaluator_.room = 1;
  ScriptedPolicy policy;
  const auto summary = search(policy);
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  EXPECT_EQ(summary->evaluations, 10);
}

TEST_F(SlowPolicyTest, ATotalOfSecondsEndsTheScreensAndKeepsTimeToConfirm) {
  options_.max_evaluations = 0;
  options_.total_seconds = 0.4;
  const auto policy = make_ladder(1 << 30);
  const auto summary = search(*policy);
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  EXPECT_GT(summary->evaluations, 0);
  EXPECT_GE(summary->seconds, 0.7 * options_.total_seconds);
  EXPECT_EQ(evaluator_.requests.back().depth, Depth::kFinal);
}

TEST_F(SlowPolicyTest, TextThatNobodyCanReadGetsItsVerdictFromTheGym) {
  FakeBackend backend(Seed::from_number(5));
  backend.script("naive", timed(8000));
  GymOptions given;
  given.secret = Seed::from_number(9);
  const auto gym = Gym::start(backend, given, null_sink());
  const auto client = gym->connect();
  ScriptedPolicy policy;
  policy.write = [](int number) { return Proposal{"no kernel " + std::to_string(number), {}}; };
  const auto strategy = make_strategy("random");
  options_.max_evaluations = 2;
  const SearchContext context{
      {shared_twice_task(), backend.device(), {}}, policy, **strategy, *client, *store_, null_sink(), stop_};
  ASSERT_TRUE(run_search(context, "r", options_).ok());
  const auto rows = *store_->experiences("r");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].verdict.outcome, Outcome::kBuildFailed);
  EXPECT_EQ(rows[0].verdict.reason, "bad_candidate");
  EXPECT_EQ(rows[0].verdict.task, shared_twice_task()->digest);
}

}  // namespace
}  // namespace lathe
