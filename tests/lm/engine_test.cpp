#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>

#include "lm/cpu/packed_matrix.h"
#include "lm/open_model.h"
#include "tests/lm/tiny_model.h"

namespace lathe::lm {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using testing::SizeIs;

GenerationRequest request_of(std::int32_t prompt, std::int32_t tokens, Sampling sampling,
                             std::int32_t samples = 1) {
  return {.prompt = some_tokens(prompt), .samples = samples, .max_tokens = tokens, .sampling = sampling};
}

std::vector<Sample> run(Engine& engine, GenerationRequest request) {
  return generate(engine, std::move(request)).value();
}

/// log softmax of the full forward's logits, [answer, vocab].
at::Tensor reference(const Decoder& decoder, const std::vector<TokenId>& prompt, const Sample& sample) {
  std::vector<TokenId> all = prompt;
  all.insert(all.end(), sample.tokens.begin(), sample.tokens.end());
  const auto answer = static_cast<std::int64_t>(sample.tokens.size());
  return at::log_softmax(full_logits(decoder, all), -1)
      .narrow(0, static_cast<std::int64_t>(prompt.size()) - 1, answer);
}

std::vector<float> of_tokens(const at::Tensor& log_probs, const std::vector<TokenId>& tokens) {
  std::vector<float> values;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    values.push_back(log_probs[static_cast<std::int64_t>(i)][tokens[i]].item<float>());
  return values;
}

struct Model {
  Architecture architecture;
  bool wide_heads;
  Precision precision;
};
class EveryModel : public testing::TestWithParam<Model> {
 protected:
  const ModelConfig config_ = tiny_config(GetParam().architecture, GetParam().wide_heads);
  const std::shared_ptr<const Decoder> decoder_ =
      tiny_decoder(config_, {.precision = GetParam().precision, .packed = true});
  const std::shared_ptr<const Decoder> plain_ = tiny_decoder(config_, {.precision = GetParam().precision});
  const float tolerance_ = GetParam().precision == Precision::kF32 ? 1e-4F : 2e-2F;
};

TEST_P(EveryModel, CachedDecodingEqualsTheFullForward) {
  const auto engine = tiny_engine(decoder_);
  const auto request = request_of(70, 60, {.temperature = 0});
  const Sample sample = run(*engine, request).front();
  const at::Tensor expected = reference(*plain_, request.prompt, sample);
  EXPECT_THAT(sample.model_log_probs, Pointwise(FloatNear(tolerance_), of_tokens(expected, sample.tokens)));
  EXPECT_THAT(sample.log_probs, Each(0.0F)) << "the most probable token is drawn for certain";
  const at::Tensor best = std::get<0>(expected.max(-1));
  for (std::size_t i = 0; i < sample.tokens.size(); ++i)
    EXPECT_NEAR(best[static_cast<std::int64_t>(i)].item<float>(), sample.model_log_probs[i], 2 * tolerance_);
}

TEST_P(EveryModel, DrawnTokensHaveTheProbabilitiesThatAreReported) {
  const auto engine = tiny_engine(decoder_);
  const auto request = request_of(40, 50, {.temperature = 0.7F, .top_p = 0.8F, .top_k = 100, .seed = 3});
  const Sample sample = run(*engine, request).front();
  const at::Tensor logits = reference(*plain_, request.prompt, sample);
  EXPECT_THAT(sample.model_log_probs, Pointwise(FloatNear(tolerance_), of_tokens(logits, sample.tokens)));
  if (GetParam().precision != Precision::kF32) return;  // rounding decides what is within the mass
  for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
    const auto [sorted, order] = at::softmax(logits[static_cast<std::int64_t>(i)] / 0.7, -1).sort(-1, true);
    const at::Tensor top = sorted.narrow(0, 0, 100) / sorted.narrow(0, 0, 100).sum();
    const std::int64_t kept = (top.cumsum(0) < 0.8).sum().item<std::int64_t>() + 1;
    const auto place = (order == sample.tokens[i]).nonzero().item<std::int64_t>();
    EXPECT_LE(place, kept) << "token " << i;
    // A token as probable as the last one but for rounding may be kept with it.
    const auto log_prob = [&](std::int64_t count) {
      return std::log(top[place].item<float>() / top.narrow(0, 0, count).sum().item<float>());
    };
    EXPECT_THAT(sample.log_probs[i],
                AnyOf(FloatNear(log_prob(kept), 1e-4F), FloatNear(log_prob(kept + 1), 1e-4F)));
  }
}

/// Each token's probability is its share of what the grammar allows where it was drawn.
TEST_P(EveryModel, TokensUnderAGrammarHaveTheirProbabilitiesAmongThoseAllowed) {
  const auto engine = tiny_engine(decoder_);
  // One of three, then one of two that depend on it, and so on; a state that allows one token
  // alone.
  auto grammar = std::make_shared<TokenAutomaton>();
  grammar->states = {{{{5, 1}, {17, 2}, {90, 2}}}, {{{3, 0}, {44, 2}}}, {{{61, 3}}}, {{{2, 0}}, 0}};
  auto request = request_of(40, 60, {.temperature = 0.7F, .seed = 4});
  request.grammar = grammar;
  const Sample sample = run(*engine, request).front();
  const at::Tensor logits = reference(*plain_, request.prompt, sample);
  EXPECT_THAT(sample.model_log_probs, Pointwise(FloatNear(tolerance_), of_tokens(logits, sample.tokens)));
  std::int32_t state = 0;
  std::vector<float> expected;
  for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
    at::Tensor allowed = logits[static_cast<std::int64_t>(i)] / 0.7;
    for (TokenId token = 0; token < allowed.size(0); ++token)
      if (grammar->next(state, token) == TokenAutomaton::kForbidden)
        allowed[token] = -std::numeric_limits<float>::infinity();
    expected.push_back(at::log_softmax(allowed, -1)[sample.tokens[i]].item<float>());
    if (state == 2) {
      EXPECT_EQ(sample.log_probs[i], 0) << "there was no choice";
    }
    state = grammar->next(state, sample.tokens[i]);
    ASSERT_NE(state, TokenAutomaton::kForbidden);
  }
  EXPECT_THAT(sample.log_probs, Pointwise(FloatNear(2 * tolerance_), expected));
}

TEST_P(EveryModel, AnAnswerDoesNotDependOnWhatIsComputedBesideIt) {
  const auto wide = tiny_engine(decoder_, {.max_batch = 16});
  const auto narrow = tiny_engine(decoder_, {.max_batch = 1});
  const auto request = request_of(75, 40, {.temperature = 1, .seed = 5}, 9);
  // Others that begin and end at other times keep the batch changing.
  std::vector<std::uint64_t> others;
  for (std::int32_t i = 1; i < 12; ++i)
    others.push_back(
        wide->submit(request_of(5 * i, 3 * i, {.seed = static_cast<std::uint64_t>(i)}, 2)).value());
  const auto together = run(*wide, request), alone = run(*narrow, request);
  ASSERT_THAT(together, SizeIs(9));
  for (std::size_t i = 0; i < together.size(); ++i) {
    EXPECT_EQ(together[i].tokens, alone[i].tokens) << "sample " << i;
    // Else ATen multiplies, whose sums depend on how many rows there are.
    if (PackedMatrix::pack(at::zeros({32, 32}, at::kFloat)))
      EXPECT_EQ(together[i].log_probs, alone[i].log_probs);
    else
      EXPECT_THAT(together[i].log_probs, Pointwise(FloatNear(2 * tolerance_), alone[i].log_probs));
  }
  EXPECT_NE(together[0].tokens, together[1].tokens);
}

INSTANTIATE_TEST_SUITE_P(Engine, EveryModel,
                         testing::Values(Model{Architecture::kLlama, false, Precision::kF32},
                                         Model{Architecture::kLlama, true, Precision::kF32},
                                         Model{Architecture::kQwen2, true, Precision::kF32},
                                         Model{Architecture::kQwen3, false, Precision::kF32},
                                         Model{Architecture::kQwen3, true, Precision::kBF16}));

class EngineTest : public testing::Test {
 protected:
  const std::shared_ptr<const Decoder> decoder_ = tiny_decoder(tiny_config(Architecture::kQwen2));
  const std::unique_ptr<Engine> engine_ = tiny_engine(decoder_);
};

TEST_F(EngineTest, SeedsDecide) {
  const auto with = [&](std::uint64_t seed) {
    return run(*engine_, request_of(5, 30, {.seed = seed})).front().tokens;
  };
  EXPECT_EQ(with(1), with(1));
  EXPECT_NE(with(1), with(2));
}

TEST_F(EngineTest, PromptsOfAnyLengthAtPagesBordersAreServed) {
  for (const std::int32_t length : {1, 2, 31, 32, 33, 34, 63, 64, 65, 96, 97}) {
    const auto request = request_of(length, 36, {.temperature = 0}, 2);
    for (const Sample& sample : run(*engine_, request)) {
      const at::Tensor expected =
          reference(*tiny_decoder(tiny_config(Architecture::kQwen2), {}), request.prompt, sample);
      EXPECT_THAT(sample.model_log_probs, Pointwise(FloatNear(1e-4F), of_tokens(expected, sample.tokens)))
          << length;
    }
  }
}

TEST_F(EngineTest, StopsEndAnAnswerWithTheTokenThatCompletesThem) {
  const auto whole = run(*engine_, request_of(5, 60, {.seed = 4})).front();
  const auto letter = [](TokenId token) { return std::string(1, static_cast<char>('a' + token % 26)); };
  auto request = request_of(5, 60, {.seed = 4});
  request.stop_texts = {letter(whole.tokens[20]) + letter(whole.tokens[21]) + letter(whole.tokens[22])};
  const auto by_text = run(*engine_, request).front();
  EXPECT_EQ(by_text.finish, FinishReason::kStop);
  EXPECT_THAT(by_text.tokens, SizeIs(23));
  EXPECT_THAT(by_text.log_probs, SizeIs(23));

  request.stop_texts.clear();
  request.stop_tokens = {{whole.tokens[10], whole.tokens[11]}};
  EXPECT_THAT(run(*engine_, request).front().tokens, SizeIs(12));

  const auto ending = tiny_engine(decoder_, {.end_tokens = {whole.tokens[7]}});
  request.stop_tokens.clear();
  const auto ended = run(*ending, request).front();
  EXPECT_EQ(ended.finish, FinishReason::kEnd);
  EXPECT_EQ(ended.tokens.back(), whole.tokens[7]);
  request.ignore_end = true;
  EXPECT_EQ(run(*ending, request).front().tokens, whole.tokens);
}

TEST_F(EngineTest, AnswersEndWhereTheContextEnds) {
  const auto sample = run(*engine_, request_of(190, 1000, {.temperature = 0})).front();
  EXPECT_THAT(sample.tokens, SizeIs(10));
  EXPECT_EQ(sample.finish, FinishReason::kLength);
}

TEST_F(EngineTest, MoreAnswersThanTheCacheHoldsWaitForEachOther) {
  const auto small = tiny_engine(decoder_, {.max_batch = 8, .pages = 12});
  const auto request = request_of(40, 50, {.seed = 2}, 10);
  const auto waited = run(*small, request), plenty = run(*engine_, request);
  for (std::size_t i = 0; i < waited.size(); ++i) EXPECT_EQ(waited[i].tokens, plenty[i].tokens);
}

TEST_F(EngineTest, AGrammarAllowsOnlyWhatItSays) {
  // 7 or 8, then anything but 9 until a 3, then nothing.
  auto grammar = std::make_shared<TokenAutomaton>();
  grammar->states = {{{{7, 1}, {8, 1}}}, {{{3, 2}, {9, TokenAutomaton::kForbidden}}, 1}, {}};
  auto request = request_of(5, 190, {.temperature = 3, .seed = 1}, 40);
  request.grammar = grammar;
  bool some_ended = false;
  for (const Sample& sample : run(*engine_, request)) {
    EXPECT_THAT(sample.tokens[0], AnyOf(7, 8));
    for (const TokenId token : sample.tokens) EXPECT_NE(token, 9);
    const auto three = std::ranges::find(sample.tokens, 3);
    if (three == sample.tokens.end()) continue;
    some_ended = true;
    EXPECT_EQ(three + 1, sample.tokens.end());
    EXPECT_EQ(sample.finish, FinishReason::kGrammar);
  }
  EXPECT_TRUE(some_ended);
}

TEST_F(EngineTest, ACancelledRequestIsForgottenAndOthersGoOn) {
  const auto cancelled = engine_->submit(request_of(5, 190, {}, 500)).value();
  const auto other = engine_->submit(request_of(5, 20, {})).value();
  engine_->cancel(cancelled);
  EXPECT_EQ(engine_->wait(cancelled, 0).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(engine_->wait(other, 60)->done);
  EXPECT_EQ(engine_->wait(other, 0).error().code, ErrorCode::kNotFound) << "told once";
}

TEST_F(EngineTest, CancelledRequestsGiveTheirPagesBack) {
  const auto small = tiny_engine(decoder_, {.max_batch = 1, .pages = 9});
  for (std::int32_t i = 0; i < 60; ++i) {
    const auto request = small->submit(request_of(40, 1 + i % 3, {}, 3)).value();
    (void)small->wait(request, 60);
    small->cancel(request);
  }
  EXPECT_THAT(run(*small, request_of(100, 100, {.temperature = 0})).front().tokens, SizeIs(100))
      << "needs all pages";
}

/// Whoever holds it may compute.
struct Device {
  std::timed_mutex mutex;
  int turns = 0;

  std::shared_ptr<void> take() {
    mutex.lock();
    ++turns;
    return {this, [](Device* device) { device->mutex.unlock(); }};
  }
};

TEST_F(EngineTest, LetsOthersHaveTheDeviceBetweenSteps) {
  Device device;
  const auto sharing = tiny_engine(decoder_, {.take_turn = [&] { return device.take(); }});
  const auto request = request_of(5, 60, {.seed = 3}, 4);
  const auto number = sharing->submit(request).value();
  int others = 0;
  std::vector<Sample> samples;
  for (bool done = false; !done;) {
    const auto news = sharing->wait(number, 0);
    if (!news.ok() && device.mutex.try_lock_for(std::chrono::seconds(10))) ++others, device.mutex.unlock();
    if (!news.ok()) continue;
    samples.insert(samples.end(), news->samples.begin(), news->samples.end());
    done = news->done;
  }
  EXPECT_GT(device.turns, 10) << "of no length here";
  EXPECT_GT(others, 0);
  ASSERT_TRUE(device.mutex.try_lock_for(std::chrono::seconds(10))) << "an idle engine holds nothing";
  device.mutex.unlock();
  std::ranges::sort(samples, {}, &Sample::index);
  auto alone = run(*engine_, request);
  std::ranges::sort(alone, {}, &Sample::index);
  ASSERT_THAT(alone, SizeIs(samples.size()));
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(samples[i].tokens, alone[i].tokens);
}

TEST_F(EngineTest, WaitingHasAnEnd) {
  const auto request = engine_->submit(request_of(5, 190, {}, 200)).value();
  EXPECT_EQ(engine_->wait(request, 0).error().code, ErrorCode::kTimeout);
}

TEST_F(EngineTest, RequestsThatCannotBeServedAreRefusedWithTheReason) {
  const auto why = [&](GenerationRequest request) {
    return engine_->submit(std::move(request)).error().message;
  };
  EXPECT_THAT(why({}), HasSubstr("empty prompt"));
  EXPECT_THAT(why({.prompt = {1, 300}}), HasSubstr("token 300"));
  EXPECT_THAT(why(request_of(200, 1, {})), HasSubstr("no room"));
  EXPECT_THAT(why(request_of(5, 0, {})), HasSubstr("max_tokens"));
  for (const float temperature : {-1.0F, 1e-39F, 1e-4F})
    EXPECT_THAT(why(request_of(5, 5, {.temperature = temperature})), HasSubstr("temperature"));
  EXPECT_THAT(why(request_of(5, 5, {.top_p = 0})), HasSubstr("top_p"));
  EXPECT_THAT(why(request_of(5, 5, {}, 0)), HasSubstr("samples"));
  auto request = request_of(5, 5, {});
  request.grammar = std::make_shared<TokenAutomaton>(TokenAutomaton{{{{{4, 1}}}}});
  EXPECT_THAT(why(request), HasSubstr("does not exist"));
  const auto small = tiny_engine(decoder_, {.pages = 4});
  EXPECT_THAT(small->submit(request_of(80, 80, {})).error().message, HasSubstr("pages"));
}

}  // namespace
}  // namespace lathe::lm
