#include "lm/decoder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "lm/cpu/packed_matrix.h"
#include "lm/plain_ops.h"
#include "tests/lm/tiny_model.h"

namespace lathe::lm {
namespace {

TEST(Decoder, EveryWeightTakesPartInTheGradient) {
  for (const auto architecture : {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    const auto decoder = tiny_decoder(tiny_config(architecture), {});
    for (const auto& [name, tensor] : decoder->named_weights())
      if (!tensor.is_view()) tensor.set_requires_grad(true);
    for (const LayerWeights& layer : decoder->layers())
      for (const Linear* joined : {&layer.qkv, &layer.gate_up}) {
        joined->weight.set_requires_grad(true);
        if (joined->bias.defined()) joined->bias.set_requires_grad(true);
      }
    PlainOps ops(*decoder, 2, 12);
    const auto tokens = some_tokens(24);
    const at::Tensor ids = at::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end()));
    const at::Tensor log_probs = at::log_softmax(decoder->logits(decoder->hidden(ids, ops), ops), -1);
    log_probs.gather(1, ids.roll(-1).unsqueeze(1)).mean().backward();
    for (const auto& [name, tensor] : decoder->named_weights()) {
      if (tensor.is_view()) continue;
      ASSERT_TRUE(tensor.grad().defined()) << name;
      EXPECT_GT(tensor.grad().abs().sum().item<float>(), 0) << name;
    }
    for (const LayerWeights& layer : decoder->layers())
      EXPECT_GT(layer.qkv.weight.grad().abs().sum().item<float>(), 0);
  }
}

TEST(Decoder, SequencesOfABatchDoNotSeeEachOther) {
  const auto decoder = tiny_decoder(tiny_config(Architecture::kQwen3), {});
  const auto tokens = some_tokens(24);
  const at::Tensor ids = at::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end()));
  PlainOps both(*decoder, 2, 12), one(*decoder, 1, 12);
  const at::Tensor together = decoder->hidden(ids, both);
  EXPECT_TRUE(
      at::allclose(together.narrow(0, 12, 12), decoder->hidden(ids.narrow(0, 12, 12), one), 1e-4, 1e-5));
}

TEST(Decoder, NamesAreHuggingFaces) {
  const auto decoder = tiny_decoder(tiny_config(Architecture::kQwen2), {});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : decoder->named_weights()) names.push_back(name);
  EXPECT_EQ(names.front(), "model.embed_tokens.weight");
  EXPECT_THAT(names, testing::Contains("model.layers.2.self_attn.k_proj.bias"));
  EXPECT_THAT(names, testing::Contains("model.layers.0.mlp.up_proj.weight"));
  EXPECT_EQ(names.back(), "model.norm.weight");
}

TEST(Decoder, TakesOtherWeightsInPlace) {
  const ModelConfig config = tiny_config(Architecture::kLlama);
  const Decoder other = Decoder::random(config, {}, 8);
  const auto named = other.named_weights();
  const WeightReader read = [&](const std::string& name) -> Result<at::Tensor> {
    const auto found = std::ranges::find(named, name, &std::pair<std::string, at::Tensor>::first);
    if (found == named.end()) return invalid("there is no " + name);
    return found->second.clone();
  };
  Decoder decoder = Decoder::random(config, {}, 7);
  const void* const place = decoder.layers()[0].qkv.weight.const_data_ptr();
  const auto tokens = some_tokens(9);
  const at::Tensor wanted = full_logits(other, tokens);
  EXPECT_FALSE(at::allclose(full_logits(decoder, tokens), wanted));
  ASSERT_TRUE(decoder.replace_weights(read).ok());
  EXPECT_TRUE(at::equal(full_logits(decoder, tokens), wanted));
  EXPECT_EQ(decoder.layers()[0].qkv.weight.const_data_ptr(), place);
  const auto assembled = Decoder::assemble(config, {}, read);
  ASSERT_TRUE(assembled.ok());
  EXPECT_TRUE(at::equal(full_logits(*assembled, tokens), wanted));
  const WeightReader none = [](const std::string&) -> Result<at::Tensor> { return invalid("none"); };
  EXPECT_FALSE(decoder.replace_weights(none).ok());
}

TEST(PackedMatrix, MultipliesAsAtenDoesForAnyShape) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t rows : {1, 5, 12, 13, 40})
      for (const auto& [out, in] : {std::pair{1, 1}, {31, 7}, {64, 48}, {100, 77}}) {
        const at::Tensor x = at::randn({rows, in}), weight = at::randn({out, in}).to(type),
                         bias = at::randn({out});
        const auto packed = PackedMatrix::pack(weight);
        if (!packed) GTEST_SKIP() << "this processor has no AVX-512";
        const at::Tensor expected = at::linear(x.to(type).to(at::kFloat), weight.to(at::kFloat), bias);
        EXPECT_TRUE(at::allclose(packed->multiply(x, bias), expected, 1e-4, 1e-4))
            << rows << " " << out << " " << in;
      }
}

TEST(PackedMatrix, ARowsBitsDoNotDependOnTheOthers) {
  const at::Tensor x = at::randn({29, 130});
  const auto packed = PackedMatrix::pack(at::randn({70, 130}));
  if (!packed) GTEST_SKIP() << "this processor has no AVX-512";
  const at::Tensor all = packed->multiply(x, {});
  for (std::int64_t row = 0; row < 29; ++row)
    EXPECT_TRUE(at::equal(all.narrow(0, row, 1), packed->multiply(x.narrow(0, row, 1), {})));
}

}  // namespace
}  // namespace lathe::lm
