#include "train/low_rank.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include "lm/local_engine.h"
#include "tests/train/tiny.h"
#include "train/learner.h"

namespace lathe::train {
namespace {

const LowRankOptions kSome{
    .rank = 3, .alpha = 5, .targets = {"q_proj", "v_proj", "o_proj", "up_proj", "down_proj"}};

LowRank filled(const lm::Decoder& decoder, const LowRankOptions& options) {
  LowRank made = LowRank::create(decoder, options, 1).value();
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : made.named_parameters()) tensor.normal_(0, 0.1);
  return made;
}

TEST(LowRank, StartsAsNothing) {
  const at::NoGradGuard no_grad;
  const lm::Decoder decoder = tiny_decoder();
  const LowRank low_rank = LowRank::create(decoder, kSome, 1).value();
  const at::Tensor x = at::randn({3, 32});
  EXPECT_EQ(low_rank.addition(x, decoder.layers()[0].qkv, std::nullopt).abs().max().item<float>(), 0);
  EXPECT_GT(low_rank.named_parameters()[0].second.abs().max().item<float>(), 0);
}

/// k has no pair: its columns of the joined matrix stay.
TEST(LowRank, AddsExactlyTheProductOfItsMatrices) {
  const at::NoGradGuard no_grad;
  const lm::Decoder decoder = tiny_decoder();
  const LowRank low_rank = filled(decoder, kSome);
  const lm::Adapter adapter = low_rank.to_adapter("");
  const at::Tensor x = at::randn({3, 32});
  const at::Tensor added = low_rank.addition(x, decoder.layers()[1].qkv, std::nullopt);
  const auto expect = [&](std::int64_t first, std::int64_t rows, const char* weight) {
    const auto& pair = adapter.pairs.at(weight);
    const at::Tensor matrix = at::matmul(pair.up, pair.down) * (5.0 / 3.0);
    EXPECT_LT(largest_difference(added.narrow(1, first, rows), at::matmul(x, matrix.t())), 1e-5) << weight;
  };
  expect(0, 32, "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(added.narrow(1, 32, 16).abs().max().item<float>(), 0);
  expect(48, 16, "model.layers.1.self_attn.v_proj.weight");
}

TEST(LowRank, DropoutIsRepeatedByItsGeneratorAndKeepsTheMean) {
  const at::NoGradGuard no_grad;
  const lm::Decoder decoder = tiny_decoder();
  LowRankOptions options = kSome;
  options.dropout = 0.5;
  const LowRank low_rank = filled(decoder, options);
  const at::Tensor x = at::ones({20000, 32});
  const lm::Linear& matrix = decoder.layers()[0].attention_out;
  const auto drawn = [&](std::uint64_t seed) {
    return low_rank.addition(x, matrix, at::make_generator<at::CPUGeneratorImpl>(seed));
  };
  EXPECT_EQ(largest_difference(drawn(1), drawn(1)), 0);
  EXPECT_GT(largest_difference(drawn(1), drawn(2)), 0);
  const at::Tensor whole = low_rank.addition(x, matrix, std::nullopt);
  EXPECT_LT(largest_difference(drawn(1).mean(0), whole.mean(0)), 0.02);
}

TEST(LowRank, RefusesMatricesThatDoNotExist) {
  const auto made = LowRank::create(tiny_decoder(), {.targets = {"w1"}}, 1);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().to_string(), testing::HasSubstr("'w1'"));
}

TEST(Adapter, SurvivesItsFilesAndFitsItsModelOnly) {
  const lm::Decoder decoder = tiny_decoder();
  const lm::Adapter adapter = filled(decoder, kSome).to_adapter("base");
  const std::string folder = testing::TempDir() + "adapter";
  ASSERT_TRUE(lm::write_adapter(adapter, folder).ok());
  const auto read = lm::read_adapter(folder);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->bits, 32);
  EXPECT_EQ(read->base_model, "base");
  EXPECT_EQ(read->targets, adapter.targets);
  EXPECT_EQ(read->pairs.size(), adapter.pairs.size());
  for (const auto& [weight, pair] : adapter.pairs) {
    EXPECT_TRUE(at::equal(read->pairs.at(weight).down, pair.down)) << weight;
    EXPECT_TRUE(at::equal(read->pairs.at(weight).up, pair.up)) << weight;
  }
  EXPECT_TRUE(lm::check_fits(*read, decoder.config()).ok());
  ModelConfig other = decoder.config();
  other.hidden = 64;
  EXPECT_FALSE(lm::check_fits(*read, other).ok());
  other = decoder.config();
  other.layers = 1;
  EXPECT_FALSE(lm::check_fits(*read, other).ok());
}

TEST(Adapter, WrittenIn16BitsIsRoundedToBf16) {
  const lm::Decoder decoder = tiny_decoder();
  LowRankOptions options = kSome;
  options.bits = 16;
  const lm::Adapter adapter = filled(decoder, options).to_adapter("base");
  const std::string folder = testing::TempDir() + "adapter16";
  ASSERT_TRUE(lm::write_adapter(adapter, folder).ok());
  const auto read = lm::read_adapter(folder);
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(read->bits, 16) << "what is trained on is written as it was";
  for (const auto& [weight, pair] : adapter.pairs)
    EXPECT_TRUE(at::equal(read->pairs.at(weight).up, pair.up.to(at::kBFloat16).to(at::kFloat))) << weight;
}

TEST(Adapter, MergedIntoTheWeightsComputesTheSame) {
  const at::NoGradGuard no_grad;
  Rng rng(Seed::from_number(1));
  const std::vector<Example> examples = {random_example(rng, 4, 5)};
  const Batch batch = make_batch(examples, std::vector<Row>{{0}});
  Learner learner = Learner::create(tiny_decoder(), kSome, 1).value();
  for (const auto& [name, tensor] : learner.low_rank()->named_parameters()) tensor.normal_(0, 0.1);
  const at::Tensor adapted = learner.scorer().log_probs(batch, std::nullopt);

  const lm::Adapter adapter = learner.low_rank()->to_adapter("");
  lm::Decoder merged = tiny_decoder();
  for (const auto& [name, weight] : merged.named_weights())
    if (const at::Tensor addition = adapter.addition(name); addition.defined()) weight.add_(addition);
  const Learner plain = Learner::create(std::move(merged), std::nullopt, 1).value();
  EXPECT_LT(largest_difference(adapted, plain.scorer().log_probs(batch, std::nullopt)), 1e-5);
}

TEST(Adapter, BecomesPartOfTheWeightsThatADecoderLoads) {
  const std::string folder = testing::TempDir() + "adapted";
  const Learner base = Learner::create(tiny_decoder(), std::nullopt, 1).value();
  ASSERT_TRUE(base.write_result(folder, "").ok());
  const auto checkpoint = Checkpoint::open(folder + "/model");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().to_string();
  const lm::Adapter adapter = filled(base.decoder(), kSome).to_adapter("");
  const auto loaded = lm::Decoder::load(*checkpoint, {}, &adapter);
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  const auto merged = loaded->named_weights(), plain = base.decoder().named_weights();
  ASSERT_EQ(merged.size(), plain.size());
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < merged.size(); ++i) {
    const auto& [name, weight] = plain[i];
    const at::Tensor addition = adapter.addition(name);
    EXPECT_LT(largest_difference(merged[i].second, addition.defined() ? weight + addition : weight), 1e-6)
        << name;
  }
  EXPECT_NE(digest_with(Digest{}, adapter), Digest{});
}

/// Sampling, for which matrices are packed and a cache is kept, and training, which adds the pair's
/// product to each matrix's own, give one model.
TEST(Adapter, TheEngineSamplesFromTheModelThatWasTrained) {
  const std::string folder = testing::TempDir() + "sampled";
  Learner learner = Learner::create(tiny_decoder(), kSome, 1).value();
  ASSERT_TRUE(
      Learner::create(tiny_decoder(), std::nullopt, 1).value().write_result(folder + "/base", "").ok());
  {
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : learner.low_rank()->named_parameters()) tensor.normal_(0, 0.3);
  }
  ASSERT_TRUE(lm::write_adapter(learner.low_rank()->to_adapter(""), folder).ok());

  const auto sampled = [&](const lm::Adapter* adapter) {
    const Checkpoint checkpoint = Checkpoint::open(folder + "/base/model").value();
    const auto decoder =
        std::make_shared<const lm::Decoder>(lm::Decoder::load(checkpoint, {.packed = true}, adapter).value());
    const lm::RunnerOptions runner{.max_batch = 4, .context = 100, .pages = 40};
    lm::LocalEngineOptions options{.runner = runner};
    options.info = {.vocab = 64, .context = 100, .max_batch = 4};
    const auto engine =
        lm::make_local_engine(lm::make_cpu_runner(decoder, runner).value(), std::move(options));
    return generate(*engine, {.prompt = {3, 1, 4, 1, 5}, .samples = 4, .max_tokens = 20}).value();
  };
  const auto worst = [&](const std::vector<Sample>& samples) {
    const at::NoGradGuard no_grad;
    double difference = 0;
    for (const Sample& sample : samples) {
      Example example{.prompt = {3, 1, 4, 1, 5}, .answer = sample.tokens};
      example.weights.assign(sample.tokens.size(), 1.0F);
      const std::vector<Example> examples = {example};
      const at::Tensor trained =
          learner.scorer().log_probs(make_batch(examples, std::vector<Row>{{0}}), std::nullopt);
      difference = std::max(difference, largest_difference(trained, at::tensor(sample.model_log_probs)));
    }
    return difference;
  };
  const lm::Adapter adapter = lm::read_adapter(folder).value();
  EXPECT_LT(worst(sampled(&adapter)), 1e-4);
  EXPECT_GT(worst(sampled(nullptr)), 1e-2) << "the adapter changes nothing";
}

}  // namespace
}  // namespace lathe::train
