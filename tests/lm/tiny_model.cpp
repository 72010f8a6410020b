#include "tests/lm/tiny_model.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "base/random.h"
#include "lm/open_model.h"
#include "lm/plain_ops.h"

namespace lathe::lm {

constexpr std::int64_t kVocab = 300;

ModelConfig tiny_config(Architecture architecture, bool wide_heads) {
  ModelConfig config{.architecture = architecture,
                     .layers = 3,
                     .hidden = 48,
                     .heads = 6,
                     .kv_heads = 2,
                     .ffn = 80,
                     .vocab = kVocab,
                     .context = 4096,
                     .rms_eps = 1e-5,
                     .rope_theta = 1e4};
  config.head_dim = wide_heads ? 64 : 16;
  config.tied_embeddings = architecture != Architecture::kLlama;
  config.qkv_bias = architecture == Architecture::kQwen2;
  config.qk_norm = architecture == Architecture::kQwen3;
  return config;
}

std::shared_ptr<const Decoder> tiny_decoder(const ModelConfig& config, const DecoderOptions& options) {
  return std::make_shared<const Decoder>(Decoder::random(config, options, 7));
}

std::unique_ptr<Engine> tiny_engine(std::shared_ptr<const Decoder> decoder, const TinyEngine& options) {
  const RunnerOptions runner{
      .max_batch = options.max_batch, .context = options.context, .pages = options.pages};
  LocalEngineOptions engine{.runner = runner, .end_tokens = options.end_tokens};
  engine.info = {.vocab = kVocab, .context = options.context, .max_batch = options.max_batch};
  engine.token_bytes = [](TokenId token) {
    return std::string_view("abcdefghijklmnopqrstuvwxyz").substr(static_cast<std::size_t>(token % 26), 1);
  };
  engine.take_turn = options.take_turn;
  engine.turn_seconds = 0;
  return make_local_engine(make_runner(std::move(decoder), runner).value(), engine);
}

at::Tensor full_logits(const Decoder& decoder, std::vector<TokenId> tokens) {
  const c10::InferenceMode inference;
  tokens.pop_back();
  const auto count = static_cast<std::int64_t>(tokens.size());
  PlainOps ops(decoder, 1, count);
  const at::Tensor ids =
      at::tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end())).to(decoder.options().device);
  return decoder.logits(decoder.hidden(ids, ops), ops).to(at::kCPU);
}

std::vector<TokenId> some_tokens(std::int32_t count, std::uint64_t seed) {
  Rng rng(Seed::from_number(seed));
  std::vector<TokenId> tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(rng.below(kVocab)));
  return tokens;
}

}  // namespace lathe::lm
