#include "rl/live_gym.h"

#include <gmock/gmock.h>

#include "reward/reward.h"
#include "tests/gym/fake_task.h"
#include "tests/rl/function_evaluator.h"

namespace lathe::rl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::shared_ptr<const TaskSpec> task_named(const std::string& name) {
  std::string text = kTwiceTask;
  text.replace(text.find("twice"), 5, name);
  return std::make_shared<const TaskSpec>(parse_task(text, name).value());
}

class LiveGymTest : public testing::Test {
 protected:
  /// "2.5" is 2.5 times as fast as its peer; other texts are the outcomes that they name.
  static Result<Verdict> by_text(const EvaluationRequest& request) {
    if (request.text == "hack") return failed_verdict(request, Outcome::kTampered, "canary");
    if (request.text == "wrong") return failed_verdict(request, Outcome::kWrong, "bound");
    if (request.text == "machine") return failed_verdict(request, Outcome::kInfra, "worker_lost");
    if (request.text == "late") return Error{ErrorCode::kTimeout, "no verdict in time"};
    if (request.text == "gone") return Error{ErrorCode::kUnavailable, "nobody answers"};
    return passed_verdict(request, std::stod(request.text));
  }
  Result<std::vector<Verdict>> judge(const std::vector<Gym::Question>& questions) {
    return gym_.judge(questions, {});
  }
  std::vector<Outcome> outcomes(const std::vector<Gym::Question>& questions) {
    std::vector<Outcome> all;
    const auto verdicts = judge(questions).value();
    for (const Verdict& verdict : verdicts) all.push_back(verdict.outcome);
    return all;
  }

  FunctionEvaluator evaluator_{by_text};
  CancelToken cancel_;
  LiveGym gym_{{task_named("a"), task_named("b")}, evaluator_, cancel_};
};

TEST_F(LiveGymTest, AnswersInTheOrderOfTheQuestionsAboutTheirTasks) {
  const auto verdicts = judge({{0, "2"}, {1, "3"}, {0, "wrong"}, {1, "2"}});
  ASSERT_TRUE(verdicts.ok()) << verdicts.error().to_string();
  ASSERT_THAT(*verdicts, SizeIs(4));
  for (const auto& [i, speed] : {std::pair<std::size_t, double>{0, 2}, {1, 3}, {3, 2}})
    EXPECT_NEAR(speedup_low((*verdicts)[i], gym_.peer(i % 2)), speed, 1e-9);
  EXPECT_EQ((*verdicts)[2].reason, "bound");
  EXPECT_EQ((*verdicts)[0].task, task_named("a")->digest);
  EXPECT_EQ((*verdicts)[1].task, task_named("b")->digest);
  for (const EvaluationRequest& request : evaluator_.requests) EXPECT_EQ(request.depth, Depth::kScreen);
}

TEST_F(LiveGymTest, KnowsWhatATaskIsComposedOf) { EXPECT_EQ(gym_.composition(0), "add"); }

TEST_F(LiveGymTest, JudgesEqualTextsOfATaskOnce) {
  EXPECT_THAT(outcomes({{0, "2"}, {1, "2"}, {0, "2"}, {0, "wrong"}, {0, "wrong"}}),
              ElementsAre(Outcome::kPass, Outcome::kPass, Outcome::kPass, Outcome::kWrong, Outcome::kWrong));
  EXPECT_THAT(evaluator_.requests, SizeIs(3));
}

TEST_F(LiveGymTest, AsksForPeersWhileOthersAreJudged) {
  std::vector<int> in_flight;
  evaluator_.on_prepare = [&] { in_flight.push_back(evaluator_.in_flight()); };
  ASSERT_TRUE(judge({{0, "2"}, {1, "wrong"}, {0, "3"}}).ok());  // the last is judged first
  EXPECT_THAT(in_flight, ElementsAre(2));
}

TEST_F(LiveGymTest, JudgesWhatHasBegunOnceAndThatAlone) {
  std::string text = "2";
  gym_.begin({0, text});
  text = "gone from here";
  gym_.begin({1, "wrong"});
  EXPECT_EQ(evaluator_.in_flight(), 2) << "before anybody asks for verdicts";
  EXPECT_THAT(outcomes({{1, "wrong"}, {0, "2"}, {0, "wrong"}}),
              ElementsAre(Outcome::kWrong, Outcome::kPass, Outcome::kWrong));
  EXPECT_THAT(evaluator_.requests, SizeIs(3));
  EXPECT_THAT(outcomes({{0, "2"}}), ElementsAre(Outcome::kPass));
  EXPECT_THAT(evaluator_.requests, SizeIs(4)) << "another step's question";
}

TEST_F(LiveGymTest, WhatBeganInAFullGymWaitsForItsTurn) {
  evaluator_.room = 1;
  for (const char* const text : {"2", "3", "4"}) gym_.begin({0, text});
  EXPECT_EQ(evaluator_.in_flight(), 1);
  EXPECT_THAT(outcomes({{0, "2"}, {0, "3"}, {0, "4"}}),
              ElementsAre(Outcome::kPass, Outcome::kPass, Outcome::kPass));
}

TEST_F(LiveGymTest, AsksForPeersOfTheTasksThatItExpects) {
  int prepared = 0;
  evaluator_.on_prepare = [&] { ++prepared; };
  gym_.expect(std::vector<std::size_t>{0, 1, 0});
  EXPECT_EQ(prepared, 2);
  ASSERT_TRUE(judge({{0, "2"}, {1, "wrong"}}).ok());
  EXPECT_EQ(prepared, 2);
  gym_.expect(std::vector<std::size_t>{0, 1});
  EXPECT_EQ(prepared, 3) << "the peer of one is known";
}

TEST_F(LiveGymTest, EndsWhereEveryVerdictIsLate) {
  const auto verdicts = judge({{0, "late"}, {1, "late"}});
  ASSERT_FALSE(verdicts.ok());
  EXPECT_EQ(verdicts.error().code, ErrorCode::kTimeout);
  for (const EvaluationRequest& request : evaluator_.requests) EXPECT_GT(request.deadline_seconds, 0);
}

TEST_F(LiveGymTest, HasAsManyUnderWayAsTheGymTakes) {
  std::vector<std::string> texts;
  for (int i = 1; i <= 40; ++i) texts.push_back(std::to_string(i));
  std::vector<Gym::Question> questions;
  for (const std::string& text : texts) questions.push_back({0, text});
  evaluator_.room = 8;
  const auto verdicts = judge(questions);
  ASSERT_TRUE(verdicts.ok());
  for (std::size_t i = 0; i < 40; ++i)
    EXPECT_NEAR(speedup_low((*verdicts)[i], "naive"), static_cast<double>(i + 1), 1e-9);
  EXPECT_EQ(evaluator_.most_in_flight, 8);
}

TEST_F(LiveGymTest, WhatItsAuthorKnowsToBeNoCandidateIsAFailureThatSaysWhy) {
  const Error why = invalid("cut off after 7 tokens");
  const auto verdicts = judge({{0, "2"}, {0, "2", &why}});
  ASSERT_TRUE(verdicts.ok());
  EXPECT_EQ((*verdicts)[0].outcome, Outcome::kPass) << "the same text, which ended by itself";
  EXPECT_EQ((*verdicts)[1].outcome, Outcome::kBuildFailed);
  EXPECT_EQ((*verdicts)[1].reason, "bad_candidate");
  EXPECT_THAT((*verdicts)[1].detail, HasSubstr("cut off after 7 tokens"));
}

TEST_F(LiveGymTest, AHackEarnsWhatAWrongAnswerEarnsAndWhatTheMachineLostNothing) {
  const auto verdicts = judge({{0, "hack"}, {0, "wrong"}, {0, "machine"}, {0, "late"}});
  ASSERT_TRUE(verdicts.ok());
  EXPECT_EQ((*verdicts)[0].outcome, Outcome::kTampered);
  for (const Reward& reward : rewards()) {
    EXPECT_EQ(*reward.function((*verdicts)[0], gym_.peer(0)), *reward.function((*verdicts)[1], gym_.peer(0)));
    for (const std::size_t lost : {2, 3}) EXPECT_FALSE(reward.function((*verdicts)[lost], "naive").ok());
  }
  EXPECT_EQ((*verdicts)[3].outcome, Outcome::kInfra);
  EXPECT_EQ((*verdicts)[3].detail, "no verdict in time");
}

TEST_F(LiveGymTest, AsksForATasksPeersOnceAndWhenAnAnswerHasPassed) {
  ASSERT_TRUE(judge({{0, "wrong"}, {1, "wrong"}}).ok());
  EXPECT_EQ(evaluator_.baselines_asked, 0);
  ASSERT_TRUE(judge({{0, "2"}, {0, "3"}, {1, "wrong"}}).ok());
  ASSERT_TRUE(judge({{0, "4"}}).ok());
  EXPECT_EQ(evaluator_.baselines_asked, 1);
  EXPECT_EQ(gym_.peer(0), "naive");
  EXPECT_EQ(gym_.peer(1), "");
}

TEST_F(LiveGymTest, ATaskWhosePeersFailTellsNothing) {
  evaluator_.task_without_peers = "a";
  EXPECT_THAT(outcomes({{0, "2"}, {1, "2"}, {0, "3"}}),
              ElementsAre(Outcome::kInfra, Outcome::kPass, Outcome::kInfra));
}

TEST_F(LiveGymTest, EndsWhereNobodyJudgesAnything) {
  const auto verdicts = judge({{0, "gone"}, {1, "gone"}});
  ASSERT_FALSE(verdicts.ok());
  EXPECT_EQ(verdicts.error().message, "nobody answers");
  EXPECT_THAT(outcomes({{0, "gone"}, {1, "2"}}), ElementsAre(Outcome::kInfra, Outcome::kPass));
}

TEST_F(LiveGymTest, EndsSoonWhenItIsCancelledAndLeavesNothingUnderWay) {
  int polls = 0;
  evaluator_.on_poll = [&] {
    if (++polls == 2) cancel_.cancel();
  };
  const auto verdicts = judge({{0, "2"}, {0, "3"}, {0, "4"}, {0, "5"}});
  ASSERT_FALSE(verdicts.ok());
  EXPECT_EQ(verdicts.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(evaluator_.in_flight(), 0);
}

/// The same on a real gym without a device.
TEST(LiveGymOnAFakeDevice, ProposesAnyTextAndReadsVerdicts) {
  FakeBackend backend(Seed::from_number(1));
  const auto task = shared_twice_task();
  const Candidate fast = scripted("fast"), wrong = scripted("wrong");
  backend.script("naive", timed(4000, 0.01));
  backend.script(fast.digest.short_hex(), timed(1000, 0.01));
  backend.script(wrong.digest.short_hex(), {.wrong = "bound"});
  const auto gym = lathe::Gym::start(backend, {}, null_sink());
  const auto client = gym->connect();
  LiveGym live({task}, *client, {});
  const auto verdicts = live.judge(
      std::vector<Gym::Question>{{0, fast.text}, {0, wrong.text}, {0, "no kernel"}, {0, fast.text}}, {});
  ASSERT_TRUE(verdicts.ok()) << verdicts.error().to_string();
  EXPECT_EQ((*verdicts)[0].outcome, Outcome::kPass) << (*verdicts)[0].detail;
  EXPECT_EQ((*verdicts)[1].outcome, Outcome::kWrong);
  EXPECT_EQ((*verdicts)[2].outcome, Outcome::kBuildFailed);
  EXPECT_NEAR(speedup_low((*verdicts)[3], live.peer(0)), 4, 0.5);
}

}  // namespace
}  // namespace lathe::rl
