#include "contest/contest.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backend/fake/fake_backend.h"
#include "contest/kept.h"
#include "gym/gym.h"
#include "policy/catalog/catalog.h"
#include "record/json.h"
#include "task/generate/generate.h"
#include "tests/store/fixtures.h"

namespace lathe {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Raises the token once so many evaluations are stored.
class StopsContest final : public EventSink {
 public:
  StopsContest(CancelToken stop, int evaluations) : stop_(stop), evaluations_(evaluations) {}
  void on_event(const Event& event) override {
    if (event.kind == "contest.progress" && --evaluations_ == 0) stop_.cancel();
  }

 private:
  CancelToken stop_;
  int evaluations_;
};

class ContestTest : public testing::Test {
 protected:
  ContestTest() : backend_(Seed::from_number(5)) {
    options_.samples = 5;
    for (const std::uint64_t seed : {11, 12, 13}) {
      auto task =
          parse_task(*generate_task(seed, {.min_nodes = 1, .max_nodes = 2, .max_elements = 1 << 12}), "t");
      tasks_.push_back({std::make_shared<const TaskSpec>(*std::move(task)), "shapes"});
    }
    const auto catalog = [this]() -> Result<std::unique_ptr<Policy>> {
      ++opened_;
      return make_catalog_policy();
    };
    entrants_ = {{"default", Entrant::Kind::kRanking, false, 1, {}, catalog},
                 {"random", Entrant::Kind::kSampler, true, 0, {}, catalog},
                 {"evolve", Entrant::Kind::kSearch, false, 0, {}, catalog}};
  }

  Result<bool> hold(EventSink& events = null_sink(), const CancelToken& stop = {}) {
    const auto gym = Gym::start(backend_, gym_options_, events);
    const auto evaluator = gym->connect();
    return run_contest({backend_.device(), *backend_.peaks(), *evaluator, *store_, events, stop}, entrants_,
                       tasks_, options_);
  }
  std::map<std::string, int> counts() {
    std::map<std::string, int> counts;
    const auto samples = contest_samples(*store_, options_.name);
    for (const ContestSample& sample : *samples) ++counts[sample.entrant + (sample.number == 0 ? "+" : "")];
    return counts;
  }

  GymOptions gym_options_;
  FakeBackend backend_;
  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = open_or_fail(folder_.path());
  std::vector<ContestTask> tasks_;
  std::vector<Entrant> entrants_;
  ContestOptions options_;
  int opened_ = 0;
};

TEST_F(ContestTest, GivesEveryEntrantTheSameEvaluations) {
  const auto finished = hold();
  ASSERT_TRUE(finished.ok()) << finished.error().to_string();
  EXPECT_TRUE(*finished);
  EXPECT_EQ(counts()["default"], 3);
  EXPECT_EQ(counts()["random"], 15);
  EXPECT_EQ(counts()["random+"], 3);
  EXPECT_LE(counts()["evolve"], 15);
  EXPECT_GT(counts()["evolve"], 0);
}

TEST_F(ContestTest, WaitsForRoomInAGymThatIsFull) {
  gym_options_.requests_of_client = 2;
  const auto finished = hold();
  ASSERT_TRUE(finished.ok()) << finished.error().to_string();
  EXPECT_EQ(counts()["random"], 15);
}

TEST_F(ContestTest, OneTextHasOneVerdictWhoeverWroteIt) {
  entrants_.pop_back();
  ASSERT_TRUE(hold().ok());
  std::map<std::pair<Digest, Digest>, double> lows;
  const auto samples = contest_samples(*store_, options_.name);
  for (const ContestSample& sample : *samples) {
    const auto [known, fresh] = lows.try_emplace({sample.task, sample.candidate}, sample.speedup_low);
    EXPECT_EQ(known->second, sample.speedup_low);
  }
  EXPECT_LT(lows.size(), samples->size());
}

TEST_F(ContestTest, GoesOnWhereItWasStoppedAndOpensNoOneWhoIsDone) {
  options_.window = 1;
  const CancelToken stop;
  StopsContest events(stop, 4);
  const auto first = hold(events, stop);
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_FALSE(*first);
  EXPECT_LT(counts()["random"], 15);
  const auto rest = hold();
  ASSERT_TRUE(rest.ok()) << rest.error().to_string();
  EXPECT_TRUE(*rest);
  EXPECT_EQ(counts()["default"], 3);
  EXPECT_EQ(counts()["random"], 15);
  opened_ = 0;
  ASSERT_TRUE(hold().ok());
  EXPECT_EQ(opened_, 0);
  EXPECT_EQ(counts()["random"], 15);
}

TEST_F(ContestTest, ANameIsNotTakenUpBySomethingElse) {
  entrants_ = {entrants_[1]};
  entrants_[0].origin = "model a";
  ASSERT_TRUE(hold().ok());
  ASSERT_TRUE(hold().ok()) << "the same goes on";
  const auto refusal = [&] {
    const auto held = hold();
    return held.ok() ? "" : held.error().to_string();
  };
  entrants_[0].origin = "model b";
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("'random' already"), HasSubstr("model a; now"), HasSubstr("model b")));
  entrants_[0].origin = "model a";
  options_.samples = 6;
  EXPECT_THAT(refusal(), HasSubstr("5 samples"));
  options_.samples = 5, options_.seed = 2;
  EXPECT_THAT(refusal(), HasSubstr("seed 1"));
  options_.name = "another";
  EXPECT_EQ(refusal(), "");
}

/// Notes how many tasks the gym has prepared whenever it is asked.
class NotesPreparations final : public Policy {
 public:
  NotesPreparations(const RecordingSink& events, std::vector<int>& prepared)
      : catalog_(make_catalog_policy()), events_(events), prepared_(prepared) {}
  std::string name() const override { return "notes"; }
  ProposalTicket ask(ProposalRequest request) override {
    prepared_.push_back(
        static_cast<int>(std::ranges::count(events_.events(), std::string("gym.prepared"), &Event::kind)));
    return catalog_->ask(std::move(request));
  }
  std::optional<Proposed> poll(double timeout_seconds) override { return catalog_->poll(timeout_seconds); }

 private:
  const std::unique_ptr<Policy> catalog_;
  const RecordingSink& events_;
  std::vector<int>& prepared_;
};

TEST_F(ContestTest, AModelIsAskedForSeveralTasksOnceAllOfThemAreReady) {
  RecordingSink events;
  std::vector<int> prepared;
  entrants_ = {{"model", Entrant::Kind::kSampler, false, 0, {}, [&]() -> Result<std::unique_ptr<Policy>> {
                  return std::unique_ptr<Policy>(std::make_unique<NotesPreparations>(events, prepared));
                }}};
  options_.window = 12;  // three tasks a turn
  ASSERT_TRUE(hold(events).ok());
  EXPECT_THAT(prepared, testing::ElementsAre(3, 3, 3));
  EXPECT_EQ(counts()["model"], 15);
}

/// The catalogue's kernels as if a model had written them: the number of each is its only answer
/// token.
std::unique_ptr<Policy> writing_catalog() {
  const std::shared_ptr<Policy> catalog = make_catalog_policy();
  return make_policy(
      "model",
      [catalog](const ProposalRequest& request) -> Result<std::vector<Proposal>> {
        LATHE_TRY(std::vector<Proposal> proposals, propose_now(*catalog, request));
        for (std::size_t i = 0; i < proposals.size(); ++i) {
          Generation generation;
          generation.prompt_tokens = pack<std::int32_t>({1, 2, 3});
          generation.answer_tokens = pack<std::int32_t>({static_cast<std::int32_t>(i)});
          generation.answer_log_probabilities = pack<float>({-0.5F});
          generation.loss_mask = pack<std::uint8_t>({1});
          proposals[i].generation = std::move(generation);
        }
        return proposals;
      },
      RunsOn::kCaller);
}

TEST_F(ContestTest, TheNextRoundLearnsFromTheFastSuccessesOfThisOne) {
  entrants_ = {{"model", Entrant::Kind::kSampler, false, 0, {}, [] {
                  return Result<std::unique_ptr<Policy>>(writing_catalog());
                }}};
  ASSERT_TRUE(hold().ok());
  std::map<std::string, double> best;
  std::map<std::string, double> low_of;
  const auto samples = contest_samples(*store_, options_.name);
  for (const ContestSample& sample : *samples) {
    double& most = best[sample.task.hex()];
    most = std::max(most, sample.speedup_low);
    low_of[sample.task.hex() + sample.candidate.hex()] = sample.speedup_low;
  }
  const auto kept = keep_successes(*store_, options_.name, "model", {.near_best = 0.9, .most = 2});
  ASSERT_TRUE(kept.ok()) << kept.error().to_string();
  EXPECT_EQ(kept->samples, 15);
  EXPECT_EQ(kept->tasks, 3);
  std::istringstream lines(kept->lines);
  std::map<std::string, int> of_task;
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto example = *parse_json(line, "line");
    const std::string task = example["task"];
    EXPECT_LE(++of_task[task], 2);
    EXPECT_GE(low_of.at(task + example["candidate"].get<std::string>()), 0.9 * best.at(task));
    EXPECT_EQ(example["prompt_tokens"], nlohmann::json({1, 2, 3}));
    EXPECT_EQ(example["answer_tokens"].size(), 1u);
    EXPECT_EQ(example["log_probabilities"], nlohmann::json({-0.5}));
  }
  EXPECT_EQ(count, kept->examples);
  const auto all = keep_successes(*store_, options_.name, "model", {.near_best = 0, .most = 99});
  EXPECT_GT(all->examples, kept->examples);
  EXPECT_EQ(keep_successes(*store_, options_.name, "nobody", {}).error().code, ErrorCode::kNotFound);
}

TEST_F(ContestTest, AnEntrantThatFailsEndsItWithTheReason) {
  entrants_ = {{"broken", Entrant::Kind::kSampler, false, 0, {}, [] {
                  return Result<std::unique_ptr<Policy>>(Error{ErrorCode::kNotFound, "no model"});
                }}};
  const auto finished = hold();
  ASSERT_FALSE(finished.ok());
  EXPECT_EQ(finished.error().message, "no model");
}

}  // namespace
}  // namespace lathe
