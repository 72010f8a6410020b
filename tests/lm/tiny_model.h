#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "lm/local_engine.h"
#include "lm/runner.h"

namespace lathe::lm {

/// A decoder of one of the architectures with random weights, small enough that a test takes
/// milliseconds. Heads have 64 dimensions where `wide_heads`, as all real models', else 16.
ModelConfig tiny_config(Architecture architecture, bool wide_heads = false);
std::shared_ptr<const Decoder> tiny_decoder(const ModelConfig& config,
                                            const DecoderOptions& options = {.packed = true});

struct TinyEngine {
  std::int32_t max_batch = 8;
  std::int32_t context = 200;
  std::int32_t pages = 200;
  std::vector<TokenId> end_tokens = {};
  std::function<std::shared_ptr<void>()> take_turn = {};
};
/// On the decoder's device. Token t writes the letter 'a' + t % 26.
std::unique_ptr<Engine> tiny_engine(std::shared_ptr<const Decoder> decoder, const TinyEngine& options = {});

/// [tokens - 1, vocab]: the logits after each token but the last, computed at once and without a
/// cache.
at::Tensor full_logits(const Decoder& decoder, std::vector<TokenId> tokens);

std::vector<TokenId> some_tokens(std::int32_t count, std::uint64_t seed = 1);

}  // namespace lathe::lm
