#include <gmock/gmock.h>

#include <deque>

#include "gym/gym.h"
#include "search/refine.h"
#include "search/search.h"
#include "tests/gym/fake_task.h"
#include "tests/search/ladder_policy.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

using Turn = std::pair<std::int64_t, std::int64_t>;

/// A model that climbs one rung a turn. Says what it was asked for.
class Climber final : public Policy {
 public:
  std::string name() const override { return "climber"; }
  ProposalTicket ask(ProposalRequest request) override {
    std::vector<Proposal> proposals;
    for (int i = 0; i < request.count && asked_ < fails_after; ++i) {
      int rung = first_rung;
      if (!request.independent)
        rung = Ladder::rung_of(request.history.back()->experience.candidate_text) + step;
      Proposal proposal = Ladder::proposal(rung);
      proposal.generation = Generation{.model = "climber", .group = request.group, .turn = request.turn};
      proposal.generation->cost = {{"prompt_tokens", 10}, {"answer_tokens", 2}};
      proposals.push_back(std::move(proposal));
      ++asked_;
    }
    answers_.push_back({++tickets_, Result<std::vector<Proposal>>(std::move(proposals))});
    if (asked_ >= fails_after && answers_.back().proposals->empty())
      answers_.back().proposals = Error{ErrorCode::kUnavailable, "the endpoint is gone"};
    return tickets_;
  }
  std::optional<Proposed> poll(double) override {
    if (answers_.empty()) return std::nullopt;
    Proposed answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }
  int asked() const { return asked_; }

  int first_rung = 1, step = 1, fails_after = 1 << 30;

 private:
  std::deque<Proposed> answers_;
  ProposalTicket tickets_ = 0;
  int asked_ = 0;
};

class ConversationTest : public testing::Test {
 protected:
  ConversationTest() : backend_(Seed::from_number(5)) {
    backend_.script("naive", timed(8000));
    for (int rung = 0; rung < 64; ++rung)
      backend_.script(digest_of(Ladder::text(rung)).short_hex(), timed(8000 / (1 + 0.1 * rung)));
    EXPECT_TRUE(store_->create_run(make_run("r")).ok());
    options_.max_evaluations = 12;
    options_.in_flight = 2;
    options_.confirmations = 0;
  }
  Result<SearchSummary> search(Policy& policy, EventSink& events = null_sink()) {
    GymOptions given;
    given.secret = Seed::from_number(9);
    const auto gym = Gym::start(backend_, given, null_sink());
    const auto client = gym->connect();
    const auto strategy = make_refine({.turns = 3, .branches = 2});
    const PolicyContext policy_context{shared_twice_task(), backend_.device(), {}};
    const SearchContext context{policy_context, policy, **strategy, *client, *store_, events, stop_};
    return run_search(context, "r", options_);
  }
  static std::vector<Experience> rows_of(Store& store) {
    auto rows = store.experiences("r");
    EXPECT_TRUE(rows.ok());
    return *std::move(rows);
  }
  static std::vector<Turn> turns_in(Store& store) {
    std::vector<Turn> turns;
    const std::vector<Experience> rows = rows_of(store);
    for (const Experience& e : rows) turns.emplace_back(e.lineage.branch, e.lineage.turn);
    std::ranges::sort(turns);
    return turns;
  }
  std::vector<Turn> stored_turns() { return turns_in(*store_); }
  static std::vector<Turn> turns_of(std::int64_t branches) {
    std::vector<Turn> turns;
    for (std::int64_t branch = 0; branch < branches; ++branch)
      for (std::int64_t turn = 0; turn < 3; ++turn) turns.emplace_back(branch, turn);
    return turns;
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = open_or_fail(folder_.path());
  FakeBackend backend_;
  SearchOptions options_;
  CancelToken stop_;
};

TEST_F(ConversationTest, EveryTurnIsStoredOnceWithItsPlace) {
  Climber model;
  const auto summary = search(model);
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  EXPECT_EQ(stored_turns(), turns_of(4));
  const std::vector<Experience> rows = rows_of(*store_);
  for (const Experience& e : rows)
    EXPECT_EQ(Ladder::rung_of(e.candidate_text), e.lineage.turn + 1) << "a turn builds on the one before";
}

TEST_F(ConversationTest, AnAnswerThatWasGivenBeforeIsATurnToo) {
  Climber model;
  model.step = 0;
  ASSERT_TRUE(search(model).ok());
  EXPECT_EQ(stored_turns(), turns_of(4)) << "all twelve are the same text";
  const std::vector<Experience> rows = rows_of(*store_);
  for (const Experience& e : rows) {
    EXPECT_TRUE(e.generation.has_value());
    EXPECT_EQ(e.verdict.outcome, Outcome::kPass);
  }
}

/// Raises the token once so many evaluations are stored.
class StopsAfter final : public EventSink {
 public:
  StopsAfter(CancelToken stop, int evaluations) : stop_(stop), left_(evaluations) {}
  void on_event(const Event& event) override {
    if (event.kind == "search.progress" && --left_ == 0) stop_.cancel();
  }

 private:
  CancelToken stop_;
  int left_;
};

TEST_F(ConversationTest, IsResumedInTheMiddleOfATurn) {
  for (int stop_after = 1; stop_after <= 11; ++stop_after) {
    const std::string before = std::to_string(stop_after);
    SCOPED_TRACE("stopped after " + before);
    const TemporaryFolder folder;
    const auto store = open_or_fail(folder.path());
    ASSERT_TRUE(store->create_run(make_run("r")).ok());
    const auto sit = [&](EventSink& events, const CancelToken& stop) {
      GymOptions given;
      given.secret = Seed::from_number(9);
      const auto gym = Gym::start(backend_, given, null_sink());
      const auto client = gym->connect();
      const auto strategy = make_refine({.turns = 3, .branches = 2});
      Climber model;
      const PolicyContext policy_context{shared_twice_task(), backend_.device(), {}};
      const SearchContext context{policy_context, model, **strategy, *client, *store, events, stop};
      return run_search(context, "r", options_);
    };
    const CancelToken stop;
    StopsAfter stopper(stop, stop_after);
    ASSERT_TRUE(sit(stopper, stop).ok());
    ASSERT_TRUE(sit(null_sink(), {}).ok());
    EXPECT_EQ(turns_in(*store), turns_of(4));
  }
}

TEST_F(ConversationTest, WhatWasPaidForIsStoredBeforeAnErrorEndsTheSearch) {
  Climber model;
  model.fails_after = 2;
  const auto summary = search(model);
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().message, "the endpoint is gone");
  EXPECT_EQ(stored_turns().size(), 2u);
}

TEST_F(ConversationTest, AsksForNoMoreThanTheBudget) {
  options_.max_evaluations = 5;
  Climber model;
  ASSERT_TRUE(search(model).ok());
  EXPECT_EQ(model.asked(), 5);
}

}  // namespace
}  // namespace lathe
