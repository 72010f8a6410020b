#include "report/model_summary.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace lathe {
namespace {

Experience written(Outcome outcome, std::int64_t branch, std::int64_t turn, double speedup = 0) {
  Experience e;
  e.lineage = {.operation = turn == 0 ? "sample" : "refine", .branch = branch, .turn = turn};
  e.generation =
      Generation{.cost = {{"prompt_tokens", 100}, {"answer_tokens", 50}, {"seconds", 2}, {"usd", 0.25}}};
  e.verdict.outcome = outcome;
  e.verdict.reason = outcome == Outcome::kBuildFailed ? "bad_candidate" : "x";
  e.verdict.depth = Depth::kScreen;
  if (speedup > 0) e.verdict.speedups = {{"peer", "s", {speedup, speedup, speedup}}};
  return e;
}

TEST(ModelSummary, CountsAnswersCostsAndTheEndsOfConversations) {
  Experience catalogue = written(Outcome::kPass, -1, 0, 9);
  catalogue.generation.reset();
  Experience confirmation = written(Outcome::kPass, 0, 1, 3);
  confirmation.verdict.depth = Depth::kFinal;
  const ModelSummary summary = model_summary(
      {written(Outcome::kPass, 0, 0, 2), written(Outcome::kWrong, 0, 1), written(Outcome::kBuildFailed, 1, 0),
       written(Outcome::kPass, 1, 1, 0.5), catalogue, confirmation},
      "peer");
  EXPECT_EQ(summary.all.answers, 4);
  EXPECT_EQ(summary.all.readable, 3);
  EXPECT_EQ(summary.all.built, 3);
  EXPECT_EQ(summary.all.correct, 2);
  EXPECT_DOUBLE_EQ(summary.all.best, 2);
  EXPECT_DOUBLE_EQ(summary.prompt_tokens, 400);
  EXPECT_DOUBLE_EQ(summary.usd, 1);
  ASSERT_EQ(summary.turns.size(), 2u);
  EXPECT_EQ(summary.turns[1].correct, 1);
  EXPECT_EQ(summary.conversations, 2);
  EXPECT_EQ(summary.last_correct, 1);
  EXPECT_EQ(summary.last_faster, 0);
  EXPECT_EQ(summary.best_correct, 2);
  EXPECT_EQ(summary.best_faster, 1);
  EXPECT_EQ(to_json(summary)["conversations"]["best_faster"], 1);
  EXPECT_THAT(to_text(summary), testing::HasSubstr("4 answers, 3 built, 2 correct; 400 + 200 tokens"));
}

TEST(ModelSummary, AFailureOfTheMachineIsNoAnswer) {
  const ModelSummary summary =
      model_summary({written(Outcome::kInfra, 0, 0), written(Outcome::kPass, 0, 0, 2)}, "peer");
  EXPECT_EQ(summary.all.answers, 1);
  EXPECT_EQ(summary.all.correct, 1);
  EXPECT_DOUBLE_EQ(summary.usd, 0.25) << "the same answer, evaluated again";
}

TEST(ModelSummary, WithoutAModelThereIsNone) {
  EXPECT_FALSE(model_summary({}, "peer").exists());
  EXPECT_TRUE(to_json(model_summary({}, "peer")).is_null());
}

}  // namespace
}  // namespace lathe
