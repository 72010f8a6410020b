#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "base/random.h"
#include "lm/cuda/plugin.h"
#include "lm/open_model.h"
#include "tests/lm/tiny_model.h"

namespace lathe::lm {
namespace {

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    const Status usable = check_cuda();
    if (usable.ok()) return;
    if (const char* const required = std::getenv("LATHE_REQUIRE_GPU"); required && *required == '1')
      FAIL() << usable.error().to_string();
    GTEST_SKIP() << usable.error().to_string();
  }
};

/// Weights of bf16, and the same numbers for fp32 arithmetic on the CPU.
struct Pair {
  std::shared_ptr<const Decoder> gpu, cpu;
};
Pair decoders(Architecture architecture, std::int64_t heads = 6, std::int64_t kv_heads = 2,
              std::int64_t dim = 64) {
  ModelConfig config = tiny_config(architecture, true);
  config.heads = heads, config.kv_heads = kv_heads, config.head_dim = dim;
  return {tiny_decoder(config, {.precision = Precision::kBF16, .device = at::kCUDA}),
          tiny_decoder(config, {.precision = Precision::kBF16})};
}

std::vector<Sample> run(Engine& engine, const GenerationRequest& request) {
  return generate(engine, request).value();
}

float difference(const Pair& pair, const GenerationRequest& request, const Sample& sample) {
  std::vector<TokenId> all = request.prompt;
  all.insert(all.end(), sample.tokens.begin(), sample.tokens.end());
  const at::Tensor expected = at::log_softmax(full_logits(*pair.cpu, all), -1);
  float most = 0;
  for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
    const auto row = static_cast<std::int64_t>(request.prompt.size() - 1 + i);
    most =
        std::max(most, std::abs(expected[row][sample.tokens[i]].item<float>() - sample.model_log_probs[i]));
  }
  return most;
}

TEST_F(Gpu, DecodingEqualsTheFullForwardOnACpu) {
  for (const auto architecture : {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    const Pair pair = decoders(architecture);
    const auto engine = tiny_engine(pair.gpu, {.max_batch = 40, .context = 300, .pages = 2000});
    for (const std::int32_t length : {1, 31, 32, 33, 100, 200}) {
      const GenerationRequest request{
          .prompt = some_tokens(length), .samples = 5, .max_tokens = 70, .sampling = {.seed = 9}};
      for (const Sample& sample : run(*engine, request))
        EXPECT_LT(difference(pair, request, sample), 0.02F) << length;
    }
  }
}

TEST_F(Gpu, AllSharingsOfHeadsAreComputed) {
  for (const std::int64_t dim : {64, 128})
    for (const auto& [heads, kv_heads] : {std::pair{1, 1},
                                          {4, 2},
                                          {3, 1},
                                          {8, 2},
                                          {5, 1},
                                          {6, 1},
                                          {14, 2},
                                          {8, 1},
                                          {16, 1},
                                          {9, 3},
                                          {20, 2}}) {
      const Pair pair = decoders(Architecture::kQwen3, heads, kv_heads, dim);
      const auto engine = tiny_engine(pair.gpu);
      const GenerationRequest request{.prompt = some_tokens(90), .max_tokens = 20, .sampling = {.seed = 2}};
      EXPECT_LT(difference(pair, request, run(*engine, request).front()), 0.02F)
          << heads << "/" << kv_heads << " " << dim;
    }
}

TEST_F(Gpu, AnswersAreTheSameFromABusyBatch) {
  const Pair pair = decoders(Architecture::kLlama);
  const auto wide = tiny_engine(pair.gpu, {.max_batch = 64, .context = 300, .pages = 3000});
  const GenerationRequest request{
      .prompt = some_tokens(75), .samples = 9, .max_tokens = 60, .sampling = {.seed = 5}};
  std::vector<std::uint64_t> others;
  for (std::int32_t i = 1; i < 40; ++i)
    others.push_back(
        wide->submit({.prompt = some_tokens(3 * i, 2), .samples = 3, .max_tokens = 2 * i}).value());
  for (const Sample& sample : run(*wide, request)) EXPECT_LT(difference(pair, request, sample), 0.02F);
  for (const std::uint64_t other : others)
    for (bool done = false; !done;) done = wide->wait(other, 60)->done;
}

TEST_F(Gpu, TokensAreDrawnAsOnACpu) {
  const CudaPlugin& plugin = **cuda_plugin();
  Rng rng(Seed::from_number(3));
  auto grammar = std::make_shared<TokenAutomaton>();
  grammar->states = {{{{7, 0}, {9, TokenAutomaton::kForbidden}}, 0}};
  auto closed = std::make_shared<TokenAutomaton>();
  closed->states = {{{{7, 0}, {9, 0}, {40, 0}}}};
  for (const std::int64_t vocab : {100, 49152, 151936}) {
    std::vector<DrawState> rows;
    for (std::uint64_t i = 0; i < 64; ++i)
      for (const Sampling& sampling :
           {Sampling{.temperature = 0}, Sampling{}, Sampling{.temperature = 0.6F, .top_p = 0.9F},
            Sampling{.temperature = 1.3F, .top_k = 40},
            Sampling{.temperature = 2, .top_p = 0.3F, .top_k = 1000}})
        rows.push_back({.sampling = sampling,
                        .stream = i,
                        .counter = rng.below(1000),
                        .grammar = i % 4 == 0   ? grammar.get()
                                   : i % 4 == 1 ? closed.get()
                                                : nullptr});
    const at::Tensor logits = at::randn({static_cast<std::int64_t>(rows.size()), vocab}) * 3;
    const auto drawn = plugin.draw(logits.to(at::kCUDA), rows).value();
    std::vector<float> scratch;
    std::size_t different = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const at::Tensor row = logits[static_cast<std::int64_t>(i)];
      const Drawn expected =
          draw({row.const_data_ptr<float>(), static_cast<std::size_t>(vocab)}, rows[i], scratch);
      if (drawn[i].token != expected.token) {
        ++different;
        continue;
      }
      EXPECT_NEAR(drawn[i].log_prob, expected.log_prob, 1e-3) << vocab << " " << i;
      EXPECT_NEAR(drawn[i].model_log_prob, expected.model_log_prob, 1e-4) << vocab << " " << i;
    }
    EXPECT_LE(different, rows.size() / 50)
        << "of " << rows.size() << " at " << vocab;  // a last bit of an exponential
  }
}

}  // namespace
}  // namespace lathe::lm
