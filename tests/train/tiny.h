#pragma once

#include <ATen/ATen.h>

#include "base/random.h"
#include "lm/decoder.h"
#include "train/example.h"

namespace lathe::train {

/// A decoder of a few thousand weights with everything that models have: groups of heads, biases,
/// head norms.
inline ModelConfig tiny_config() {
  ModelConfig config{.architecture = Architecture::kQwen3,
                     .layers = 2,
                     .hidden = 32,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 8,
                     .ffn = 48,
                     .vocab = 64,
                     .context = 128,
                     .rms_eps = 1e-6,
                     .rope_theta = 10000};
  config.tied_embeddings = true;
  config.qkv_bias = true;
  config.qk_norm = true;
  return config;
}

inline lm::Decoder tiny_decoder(lm::Precision precision = lm::Precision::kF32) {
  return lm::Decoder::random(tiny_config(), {.precision = precision}, 7);
}

inline Example random_example(Rng& rng, int prompt, int answer) {
  Example example;
  const auto draw = [&] { return static_cast<TokenId>(rng.below(64)); };
  for (int i = 0; i < prompt; ++i) example.prompt.push_back(draw());
  for (int i = 0; i < answer; ++i) example.answer.push_back(draw());
  example.weights.assign(example.answer.size(), 1.0F);
  return example;
}

inline Dataset random_dataset(int count, std::uint64_t seed) {
  Rng rng(Seed::from_number(seed));
  Dataset data;
  for (int i = 0; i < count; ++i)
    data.examples.push_back(
        random_example(rng, static_cast<int>(rng.between(1, 6)), static_cast<int>(rng.between(1, 9))));
  data.digest = digest_of(std::to_string(seed));
  return data;
}

inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

}  // namespace lathe::train
