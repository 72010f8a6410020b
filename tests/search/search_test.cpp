#include "search/search.h"

#include <gmock/gmock.h>

#include "base/clock.h"
#include "gym/gym.h"
#include "tests/gym/fake_task.h"
#include "tests/search/ladder_policy.h"
#include "tests/search/stop_after.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

constexpr int kRungs = 64;

/// Makes the machine fail where `fails` says so, given the text, the depth and how often it was
/// asked before.
class FailingMachine final : public Evaluator {
 public:
  using Fails = std::function<bool(int rung, Depth depth, int earlier)>;
  FailingMachine(Evaluator& inner, const Fails& fails) : inner_(inner), fails_(fails) {}

  Result<Ticket> submit(EvaluationRequest request) override {
    const int rung = Ladder::rung_of(request.text);
    const Depth depth = request.depth;
    auto ticket = inner_.submit(std::move(request));
    if (ticket.ok() && fails_(rung, depth, asked_[{rung, depth}]++)) failed_.insert(*ticket);
    return ticket;
  }
  std::optional<Evaluated> poll(double timeout_seconds) override {
    auto evaluated = inner_.poll(timeout_seconds);
    if (evaluated && evaluated->verdict.ok() && failed_.contains(evaluated->ticket)) {
      evaluated->verdict->outcome = Outcome::kInfra;
      evaluated->verdict->reason = "spawn";
    }
    return evaluated;
  }
  int in_flight() const override { return inner_.in_flight(); }
  void prepare(std::shared_ptr<const TaskSpec> task) override { inner_.prepare(std::move(task)); }
  Result<TaskBaselines> baselines(std::shared_ptr<const TaskSpec> task, const CancelToken& cancel) override {
    return inner_.baselines(std::move(task), cancel);
  }

 private:
  Evaluator& inner_;
  const Fails& fails_;
  std::map<std::pair<int, Depth>, int> asked_;
  std::set<Ticket> failed_;
};

/// A store whose process is killed at its next append after so many: nothing of that sitting comes
/// later.
class KilledAfter final : public Store {
 public:
  KilledAfter(Store& store, int appends) : store_(store), appends_(appends) {}

  Result<std::int64_t> append(const Experience& experience) override {
    if (appends_-- == 0) return Error{ErrorCode::kIo, "killed"};
    return store_.append(experience);
  }
  Status create_run(const RunRecord& run) override { return store_.create_run(run); }
  Status update_run(const std::string& id, const std::string& status, const std::string& summary) override {
    return store_.update_run(id, status, summary);
  }
  Result<RunRecord> run(const std::string& id) override { return store_.run(id); }
  Result<std::vector<RunRecord>> runs(int limit) override { return store_.runs(limit); }
  Result<std::vector<Experience>> experiences(const std::string& run) override {
    return store_.experiences(run);
  }
  Result<std::vector<Experience>> read(const Query& query) override { return store_.read(query); }
  Result<std::string> get_blob(const Digest& digest) override { return store_.get_blob(digest); }
  Status put_fact(const std::string& key, const std::string& value) override {
    return store_.put_fact(key, value);
  }
  Result<std::optional<std::string>> get_fact(const std::string& key) override {
    return store_.get_fact(key);
  }

 private:
  Store& store_;
  int appends_;
};

class SearchTest : public testing::Test {
 protected:
  SearchTest() : backend_(Seed::from_number(5)) {
    backend_.script("naive", timed(8000));
    for (int rung = 0; rung < kRungs; ++rung) script(rung, timed(8000 / (1 + 0.1 * rung)));
    EXPECT_TRUE(store_->create_run(make_run("r")).ok());
    options_.max_evaluations = 30;
    options_.in_flight = 1;
  }

  static Digest digest(int rung) { return digest_of(Ladder::text(rung)); }
  void script(int rung, const FakeKernel& kernel) { backend_.script(digest(rung).short_hex(), kernel); }

  /// One sitting of the run, as a program would have it.
  Result<SearchSummary> sit(const std::string& strategy, EventSink& events = null_sink(),
                            const CancelToken& stop = {}) {
    return sit(strategy, events, stop, *store_);
  }
  Result<SearchSummary> sit(const std::string& strategy, EventSink& events, const CancelToken& stop,
                            Store& store) {
    GymOptions given;
    given.secret = Seed::from_number(9);
    const auto gym = Gym::start(backend_, given, null_sink());
    const auto inner = gym->connect();
    FailingMachine machine(*inner, machine_fails_);
    const auto strategies = make_strategy(strategy);
    const SearchContext context{{shared_twice_task(), backend_.device(), *backend_.peaks()},
                                *policy_,
                                **strategies,
                                machine,
                                store,
                                events,
                                stop};
    return run_search(context, "r", options_);
  }

  std::vector<Experience> stored() { return *store_->experiences("r"); }
  std::vector<Experience> stored(Depth depth) {
    std::vector<Experience> all = stored();
    std::erase_if(all, [&](const Experience& experience) { return experience.verdict.depth != depth; });
    return all;
  }
  std::vector<int> rungs(Depth depth) {
    std::vector<int> found;
    for (const Experience& experience : stored(depth))
      found.push_back(Ladder::rung_of(experience.candidate_text));
    return found;
  }
  int highest() { return std::ranges::max(rungs(Depth::kScreen)); }

  FakeBackend backend_;
  std::unique_ptr<Policy> policy_ = make_ladder(40);
  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = open_or_fail(folder_.path());
  SearchOptions options_;
  FailingMachine::Fails machine_fails_ = [](int, Depth, int) { return false; };
};

TEST_F(SearchTest, SpendsItsBudgetAndNoMoreOnTextsThatAllDiffer) {
  const auto summary = sit("random");
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  EXPECT_EQ(summary->evaluations, 30);
  EXPECT_FALSE(summary->interrupted);
  const auto tried = rungs(Depth::kScreen);
  EXPECT_EQ(tried.size(), 30u);
  EXPECT_EQ(std::set<int>(tried.begin(), tried.end()).size(), 30u);
}

TEST_F(SearchTest, TimeThatIsUpEndsWhatIsUnderWay) {
  FakeKernel hangs = timed(4000);
  hangs.delay_seconds = 60;
  for (int rung = 0; rung < kRungs; ++rung)
    if (rung % 2 == 0) script(rung, hangs);
  options_.max_evaluations = 0;
  options_.max_seconds = 3;    // in which a kernel that does not hang is judged, on a loaded machine too
  options_.confirmations = 1;  // and one evaluation at a time, of which the first does not hang
  const std::int64_t begin_ns = steady_clock().now_ns();
  const auto summary = sit("random");
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  EXPECT_LT(seconds_since(begin_ns), 20) << "a kernel takes a minute a block";
  EXPECT_FALSE(summary->interrupted);
}

TEST_F(SearchTest, EvolveClimbsBeyondWhatIsDrawn) {
  policy_ = make_ladder(20);
  ASSERT_TRUE(sit("evolve").ok());
  EXPECT_GT(highest(), 25);
  const auto all = stored(Depth::kScreen);
  EXPECT_THAT(all.back().lineage.parents, testing::SizeIs(1));
}

TEST_F(SearchTest, ConfirmsTheBestOfTheScreenOnceEach) {
  ASSERT_TRUE(sit("random").ok());
  auto best = rungs(Depth::kScreen);
  std::sort(best.rbegin(), best.rend());
  best.resize(3);
  EXPECT_EQ(rungs(Depth::kFinal), best);
  ASSERT_TRUE(sit("random").ok());
  EXPECT_EQ(rungs(Depth::kFinal), best) << "a finished run that is resumed confirms nothing twice";
}

TEST_F(SearchTest, AStoppedRunGoesOnWhereItWas) {
  const CancelToken stop;
  StopAfter events(stop, 11);
  const auto first = sit("evolve", events, stop);
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_TRUE(first->interrupted);
  EXPECT_EQ(first->evaluations, 11);
  EXPECT_TRUE(stored(Depth::kFinal).empty());
  const auto second = sit("evolve");
  ASSERT_TRUE(second.ok()) << second.error().to_string();
  EXPECT_EQ(second->evaluations, 30);
  const auto tried = rungs(Depth::kScreen);
  EXPECT_EQ(std::set<int>(tried.begin(), tried.end()).size(), 30u) << "nothing is evaluated twice";
  std::int64_t sequence = 0;
  for (const Experience& experience : stored()) EXPECT_EQ(experience.sequence, sequence++);
}

TEST_F(SearchTest, ARunThatIsKilledOftenSpendsItsWholeBudget) {
  constexpr int kAll = 40;
  options_.max_evaluations = kAll - 2;  // of all that a draw can give
  options_.in_flight = 4;
  int sittings = 0;
  for (int appends = 1; sittings < 100; appends = 1 + appends % 3, ++sittings) {
    KilledAfter store(*store_, appends);
    const auto summary = sit("random", null_sink(), {}, store);
    if (summary.ok()) break;
    ASSERT_EQ(summary.error().message, "killed");
  }
  EXPECT_GT(sittings, 10);
  const auto tried = rungs(Depth::kScreen);
  EXPECT_EQ(tried.size(), kAll - 2u) << "after " << sittings << " sittings";
  EXPECT_EQ(std::set<int>(tried.begin(), tried.end()).size(), tried.size());
}

TEST_F(SearchTest, ASearchThatEndsBeforeItsBudgetSaysSo) {
  policy_ = make_ladder(5);
  RecordingSink events;
  ASSERT_TRUE(sit("random", events).ok());
  const auto told = std::ranges::count_if(events.events(), [](const Event& event) {
    return event.kind == "search.exhausted" && event.severity == Severity::kWarning;
  });
  EXPECT_EQ(told, 1);
}

TEST_F(SearchTest, APolicyWithNothingNewEndsTheSearch) {
  policy_ = make_ladder(5);
  const auto summary = sit("random");
  ASSERT_TRUE(summary.ok());
  EXPECT_TRUE(summary->exhausted);
  EXPECT_EQ(summary->evaluations, 5);
  EXPECT_EQ(stored(Depth::kFinal).size(), 3u);
}

TEST_F(SearchTest, FailuresCountAndAreNoParents) {
  options_.max_evaluations = 22;
  for (int rung = 0; rung < kRungs; rung += 2) {
    FakeKernel wrong = timed(10);
    wrong.wrong = "bound";
    script(rung, wrong);
  }
  const auto summary = sit("evolve");
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->evaluations, 22);
  for (const int rung : rungs(Depth::kFinal)) EXPECT_EQ(rung % 2, 1);
  for (const Experience& experience : stored(Depth::kScreen))
    for (const Digest& parent : experience.lineage.parents)
      for (int rung = 0; rung < kRungs; rung += 2) EXPECT_NE(parent, digest(rung));
}

TEST_F(SearchTest, AFailureOfTheMachineIsTriedAgainAndCostsNoEvaluation) {
  machine_fails_ = [](int rung, Depth, int earlier) { return rung % 3 == 0 && earlier < 2; };
  const auto summary = sit("random");
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  EXPECT_EQ(summary->evaluations, 30);
  const auto tried = rungs(Depth::kScreen);
  EXPECT_EQ(std::set<int>(tried.begin(), tried.end()).size(), 30u);
  EXPECT_THAT(rungs(Depth::kFinal), testing::SizeIs(3));
  for (const Experience& experience : stored()) EXPECT_EQ(experience.verdict.outcome, Outcome::kPass);
}

TEST_F(SearchTest, AMachineThatKeepsFailingEndsTheSearchAndAResumedOneTriesAgain) {
  options_.max_evaluations = 5;
  options_.confirmations = 1;
  options_.in_flight = 2;
  machine_fails_ = [](int, Depth, int) { return true; };
  const auto first = sit("random");
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(first.error().message, testing::HasSubstr("spawn"));
  EXPECT_THAT(first.error().hint, testing::HasSubstr("--resume r"));
  const auto failed = rungs(Depth::kScreen);
  EXPECT_THAT(failed, testing::SizeIs(1));

  machine_fails_ = [](int, Depth, int) { return false; };
  const auto second = sit("random");
  ASSERT_TRUE(second.ok()) << second.error().to_string();
  EXPECT_EQ(second->evaluations, 5) << "the failure was not charged";
  std::vector<int> judged;
  for (const Experience& experience : stored(Depth::kScreen))
    if (experience.verdict.passed()) judged.push_back(Ladder::rung_of(experience.candidate_text));
  EXPECT_THAT(judged, testing::SizeIs(5));
  EXPECT_THAT(judged, testing::Contains(failed[0]));
}

TEST_F(SearchTest, ACandidateThatAloneBreaksTheMachineIsGivenUp) {
  options_.max_evaluations = 12;
  options_.in_flight = 4;
  machine_fails_ = [](int rung, Depth, int) { return rung % 4 == 1; };
  const auto summary = sit("random");
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  EXPECT_EQ(summary->evaluations, 12);
}

TEST_F(SearchTest, AFinalistThatBreaksTheMachineDoesNotKeepOthersFromConfirmation) {
  int broken = -1;
  machine_fails_ = [&](int rung, Depth depth, int) {
    if (depth == Depth::kFinal && broken < 0) broken = rung;
    return depth == Depth::kFinal && rung == broken;
  };
  const auto summary = sit("random");
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  std::vector<Outcome> outcomes;
  for (const Experience& experience : stored(Depth::kFinal)) outcomes.push_back(experience.verdict.outcome);
  EXPECT_THAT(outcomes, testing::ElementsAre(Outcome::kInfra, Outcome::kPass, Outcome::kPass));

  machine_fails_ = [](int, Depth depth, int) { return depth == Depth::kFinal; };
  broken = -1;
  ASSERT_TRUE(sit("random").ok()) << "the others were confirmed before";
}

TEST_F(SearchTest, WithManyInFlightTheBudgetStillHolds) {
  options_.in_flight = 8;
  const auto summary = sit("evolve");
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->evaluations, 30);
  EXPECT_EQ(stored(Depth::kScreen).size(), 30u);
}

TEST(Strategies, AnUnknownNameSaysWhichThereAre) {
  const auto strategy = make_strategy("annealing");
  ASSERT_FALSE(strategy.ok());
  EXPECT_THAT(strategy.error().hint, testing::HasSubstr("evolve"));
}

}  // namespace
}  // namespace lathe
