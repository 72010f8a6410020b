#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>

#include "base/fd.h"
#include "rl/live_gym.h"
#include "tests/gym/fake_task.h"
#include "tests/rl/function_evaluator.h"
#include "tests/train/tiny_actor.h"

// A language model whose answers no grammar bounds, and a gym that judges any text.
namespace lathe::train {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::int64_t kMostLetters = 10;

/// "a?", and behind it what was answered before; an answer ends with "e" or "E".
class LetterTasks final : public LmTasks {
 public:
  explicit LetterTasks(std::size_t count) : count_(count) {}
  std::size_t count() const override { return count_; }
  std::string_view name(std::size_t) const override { return "letters"; }
  Result<std::vector<ChatMessage>> messages(const rl::Prompt& prompt) const override {
    std::string text = std::string(1, static_cast<char>('a' + prompt.task)) + "?";
    for (const auto& attempt : prompt.shown) text += attempt->experience.candidate_text + ";";
    return std::vector<ChatMessage>{{"user", text}};
  }
  Form form(std::size_t) const override {
    return {.grammar = {}, .stop_texts = {"e", "E"}, .most_tokens = kMostLetters};
  }
  Result<rl::Answer> meaning(std::size_t, std::string written, bool cut) const override {
    rl::Answer answer{.text = std::move(written), .tokens = {}, .log_probabilities = {}};
    answer.cut = cut;
    if (cut) answer.unreadable = invalid("cut off");
    return answer;
  }

 private:
  const std::size_t count_;
};

std::unique_ptr<LmActor> letters_actor(bool adapter, std::uint64_t seed = 1,
                                       std::int64_t tokens_at_once = 16384) {
  return tiny_actor(std::make_shared<LetterTasks>(2), adapter, seed,
                    {.tokens_at_once = tokens_at_once, .longest_prompt = 64});
}
std::vector<rl::Prompt> letter_prompts() {
  std::vector<rl::Prompt> prompts(20, {.task = 0});
  prompts.resize(40, {.task = 1});
  return prompts;
}

class FreeAnswers : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Kinds, FreeAnswers, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "adapter" : "whole"; });

TEST_P(FreeAnswers, AreDrawnWithTheProbabilitiesThatAreLearnedWith) {
  const auto actor = letters_actor(GetParam());
  const auto prompts = letter_prompts();
  for (std::uint64_t round = 0; round < 3; ++round) {
    const auto answers = actor->sample(prompts, Seed::from_number(round));
    ASSERT_TRUE(answers.ok()) << answers.error().to_string();
    const auto pairs = prompted(prompts, *answers);
    const auto learned = *actor->log_probabilities(pairs);
    ASSERT_NO_FATAL_FAILURE(expect_drawn_with(learned, *answers, 5e-5));
    double surprise = 0;
    for (const auto& tokens : learned)
      for (const double log : tokens) surprise -= log / static_cast<double>(answers->size());
    std::vector<std::vector<double>> gradient = learned;
    for (auto& one : gradient) std::ranges::fill(one, -0.05);
    const auto entropy = actor->add_gradient(pairs, gradient, 0);
    ASSERT_TRUE(entropy.ok());
    EXPECT_NEAR(*entropy, surprise, 1e-6) << "an estimate by the answers themselves";
    ASSERT_TRUE(actor->update(0.01, 0).ok());
  }
}

TEST(FreeAnswer, HaveTheProbabilitiesOfTheWholeVocabulary) {
  const auto actor = letters_actor(false);
  const auto prompts = letter_prompts();
  const auto answers = *actor->sample(prompts, Seed::from_number(1));
  const auto known = *actor->log_probabilities(prompted(prompts, answers));
  std::vector<std::int64_t> all(kByteModelVocab);
  std::iota(all.begin(), all.end(), std::int64_t{0});
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Example example{.prompt = {'a' + static_cast<TokenId>(prompts[i].task), '?'},
                          .answer = answers[i].tokens,
                          .weights = std::vector<float>(answers[i].tokens.size(), 1)};
    const Row row = {0};
    const at::Tensor logs = at::log_softmax(
        actor->learner().scorer().logits(make_batch(std::span(&example, 1), std::span(&row, 1)), all), 1);
    for (std::size_t t = 0; t < answers[i].tokens.size(); ++t)
      EXPECT_NEAR(logs[static_cast<std::int64_t>(t)][answers[i].tokens[t]].item<double>(), known[i][t], 2e-5);
  }
}

TEST_P(FreeAnswers, HaveTheGradientOfTheLoss) {
  const auto actor = letters_actor(GetParam(), 1, 100);  // several passes
  const auto prompts = letter_prompts();
  const auto answers = *actor->sample(prompts, Seed::from_number(1));
  const auto pairs = prompted(prompts, answers);
  const auto weights = random_weights(answers);
  leave_the_beginning(*actor);
  const auto loss = [&] { return weighted_sum(*actor->log_probabilities(pairs), weights); };
  const auto add_gradient = [&] { ASSERT_TRUE(actor->add_gradient(pairs, weights, 0).ok()); };
  const Slope slope = slope_along_gradient(*actor, add_gradient, loss);
  ASSERT_GT(slope.norm, 0.1);
  EXPECT_NEAR(slope.measured, slope.norm, 0.02 * slope.norm);
}

TEST(FreeAnswer, EndWithAStopTextOrTheEndOfTurnOrAreCut) {
  const auto actor = letters_actor(false);
  const auto prompts = letter_prompts();
  int cut = 0, ended = 0;
  for (std::uint64_t round = 0; round < 20; ++round) {
    const auto answers = *actor->sample(prompts, Seed::from_number(round));
    for (const rl::Answer& answer : answers) {
      const TokenId last = answer.tokens.back();
      const bool ends = last == 'e' || last == 'E' || last == 256;
      EXPECT_EQ(answer.cut, answer.unreadable.has_value());
      if (answer.cut) {
        EXPECT_THAT(answer.tokens, SizeIs(kMostLetters));
      }
      EXPECT_TRUE(answer.cut || ends);
      for (std::size_t t = 0; t + 1 < answer.tokens.size(); ++t)
        EXPECT_TRUE(answer.tokens[t] != 'e' && answer.tokens[t] != 'E' && answer.tokens[t] != 256);
      (answer.cut ? cut : ended) += 1;
    }
  }
  EXPECT_GT(cut, 0);
  EXPECT_GT(ended, 0);
}

TEST(FreeAnswer, HaveNoGradientOfTheirEntropy) {
  const auto actor = letters_actor(false);
  const std::vector<rl::Prompt> prompts(1);
  const auto answers = *actor->sample(prompts, Seed::from_number(1));
  const std::vector<std::vector<double>> nothing = {std::vector<double>(answers[0].tokens.size(), 0)};
  EXPECT_TRUE(actor->add_gradient(prompted(prompts, answers), nothing, 0).ok());
  EXPECT_FALSE(actor->add_gradient(prompted(prompts, answers), nothing, 0.1).ok());
}

/// A live gym that pays for low letters: a text is 1 + 2 * (share of bytes below 64) times as fast.
class PayingGym {
 public:
  explicit PayingGym(const CancelToken& cancel = {})
      : gym_({shared_twice_task(), shared_twice_task()}, evaluator_, cancel) {}
  operator rl::Gym&() { return gym_; }

  FunctionEvaluator evaluator_{[this](const EvaluationRequest& request) -> Result<Verdict> {
    ++judged_;
    if (lose_every_ > 0 && judged_ % lose_every_ == 0)
      return failed_verdict(request, Outcome::kInfra, "worker_lost");
    const auto low = std::ranges::count_if(request.text, [](char c) { return c >= 0 && c < 64; });
    return passed_verdict(request, 1 + 2 * static_cast<double>(low) / static_cast<double>(kMostLetters));
  }};
  int judged_ = 0, lose_every_ = 0;
  rl::LiveGym gym_;
};

TEST_P(FreeAnswers, RaiseTheRewardOnALiveGymAndDoNotWhereRewardsAreShuffled) {
  std::vector<double> gains[2];
  for (const bool shuffled : {false, true})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      rl::RlRecipe recipe = recipe_of(40, seed);
      recipe.learning_rate = GetParam() ? 1e-2 : 5e-3;
      recipe.shuffle_rewards = shuffled;
      PayingGym gym;
      const auto actor = letters_actor(GetParam(), seed);
      const Ended ended = run(recipe, gym, *actor, {fresh_folder_of(GetParam() ? "pay_a" : "pay_w")});
      gains[shuffled].push_back(ended.gain());
      for (const rl::StepMetrics& step : ended.steps) {
        EXPECT_LT(step.mismatch, 1e-4);
        EXPECT_GT(step.judging_seconds, 0);
        EXPECT_LE(step.rollout_seconds + step.judging_seconds + step.update_seconds, step.seconds);
      }
    }
  EXPECT_GT(*std::ranges::min_element(gains[0]), 0.15) << testing::PrintToString(gains[0]);
  EXPECT_LT(mean(gains[1]), 0.1) << testing::PrintToString(gains[1]);
}

TEST(FreeAnswer, AreToldAsTheyEndWhereOthersMayJudgeMeanwhile) {
  const auto prompts = letter_prompts();
  for (const bool meanwhile : {false, true}) {
    const auto actor = tiny_actor(std::make_shared<LetterTasks>(2), false, 1,
                                  {.longest_prompt = 64, .judged_meanwhile = meanwhile});
    std::map<std::size_t, std::string> told;
    const auto answers = actor->sample(
        prompts, Seed::from_number(1),
        [&](std::size_t i, const rl::Answer& one) { EXPECT_TRUE(told.emplace(i, one.text).second); });
    ASSERT_TRUE(answers.ok()) << answers.error().to_string();
    EXPECT_EQ(told.size(), meanwhile ? answers->size() : 0);
    for (const auto& [i, text] : told) EXPECT_EQ(text, (*answers)[i].text);
  }
}

TEST(FreeAnswer, HoldTheDeviceWhileSomethingOfThemComputesAndNotAfterwards) {
  struct Held {
    std::atomic<int> now = 0, turns = 0;
  };
  const auto held = std::make_shared<Held>();
  auto actor = tiny_actor(std::make_shared<LetterTasks>(2), false, 1,
                          {.longest_prompt = 64, .take_turn = [held] {
                             ++held->now, ++held->turns;
                             return std::shared_ptr<void>(held.get(), [held](void*) { --held->now; });
                           }});
  const auto prompts = letter_prompts();
  const auto answers = *actor->sample(prompts, Seed::from_number(1));
  const int drawn = held->turns;
  EXPECT_GT(drawn, 0);
  const auto asked = prompted(prompts, answers);
  ASSERT_TRUE(actor->log_probabilities(asked).ok());
  ASSERT_TRUE(actor->add_gradient(asked, random_weights(answers), 0).ok());
  (void)actor->update(1e-3, 1);
  EXPECT_GE(held->turns, drawn + 3);
  actor.reset();
  EXPECT_EQ(held->now, 0);
}

TEST(FreeAnswer, CutOnesFailAndLostOnesAreDroppedAndCounted) {
  PayingGym gym;
  gym.lose_every_ = 5;
  const auto actor = letters_actor(false);
  const std::string folder = fresh_folder_of("lost");
  std::int64_t lost = 0, cut = 0;
  for (const rl::StepMetrics& step : run(recipe_of(3), gym, *actor, {folder}).steps) {
    EXPECT_EQ(step.outcomes.contains("INFRA") ? step.outcomes.at("INFRA") : 0, step.lost);
    EXPECT_EQ(step.outcomes.contains("BUILD_FAILED") ? step.outcomes.at("BUILD_FAILED") : 0, step.cut);
    lost += step.lost, cut += step.cut;
  }
  EXPECT_GT(lost, 0);
  EXPECT_GT(cut, 0);
  std::int64_t cut_lines = 0, lost_lines = 0;
  for (const auto& line : json_lines_of(folder + "/samples.jsonl")) {
    if (line.contains("cut")) {
      ++cut_lines;
      EXPECT_EQ(line["reward"], 0) << line;
    }
    if (line["outcome"] == "INFRA") {
      ++lost_lines;
      EXPECT_FALSE(line.contains("reward")) << line;
    }
  }
  EXPECT_EQ(cut_lines, cut);
  EXPECT_EQ(lost_lines, lost);
}

/// Also from the middle of a step that waits for verdicts.
TEST_P(FreeAnswers, GoOnBitByBit) {
  rl::RlRecipe recipe = recipe_of(5);
  recipe.updates = 2;
  recipe.turns = 2;
  recipe.smoothing_window = 50;
  const std::string kind = GetParam() ? "a" : "w";
  const std::string whole = fresh_folder_of("free_whole" + kind),
                    parts = fresh_folder_of("free_parts" + kind);
  const auto once = letters_actor(GetParam());
  PayingGym gym;
  run(recipe, gym, *once, {whole});
  {
    const CancelToken cancel;
    PayingGym stopped(cancel);
    stopped.evaluator_.on_poll = [&cancel, polls = 0]() mutable {
      if (++polls == 150) cancel.cancel();  // of 64 a step
    };
    const auto part = letters_actor(GetParam());
    const Ended ended = run(recipe, stopped, *part, {parts, false, -1, cancel});
    EXPECT_TRUE(ended.outcome.cancelled);
    EXPECT_EQ(ended.outcome.steps_done, 2);
    EXPECT_THAT(ended.steps, SizeIs(2));
  }
  const auto rest = letters_actor(GetParam());
  EXPECT_THAT(run(recipe, gym, *rest, {parts, true}).steps, SizeIs(3));
  const auto a = once->learner().parameters().state(), b = rest->learner().parameters().state();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
  EXPECT_EQ(*read_file(parts + "/samples.jsonl"), *read_file(whole + "/samples.jsonl"));
}

TEST(FreeAnswer, LaterTurnsAreAskedWithTheEarlierOnes) {
  rl::RlRecipe recipe = recipe_of(3);
  recipe.turns = 3;
  PayingGym gym;
  const auto actor = letters_actor(false);
  for (const rl::StepMetrics& step : run(recipe, gym, *actor, {fresh_folder_of("turns")}).steps)
    EXPECT_LT(step.mismatch, 1e-4) << "the learner knows the same prompts as the engine";
  const auto first = std::make_shared<Attempt>(), second = std::make_shared<Attempt>();
  first->experience.candidate_text = "abc", second->experience.candidate_text = "xyz";
  const std::vector<rl::Prompt> prompts = {
      {.task = 0}, {.task = 0, .shown = {first}}, {.task = 0, .shown = {second}}};
  auto answers = *actor->sample(prompts, Seed::from_number(1));
  answers[1] = answers[2] = answers[0];
  const auto known = *actor->log_probabilities(prompted(prompts, answers));
  EXPECT_NE(known[0], known[1]);
  EXPECT_NE(known[1], known[2]);
}

}  // namespace
}  // namespace lathe::train
