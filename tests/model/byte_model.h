#pragma once

#include "base/random.h"
#include "tests/model/fixtures.h"

namespace lathe {

inline constexpr std::int64_t kByteModelVocab =
    257;  ///< token b writes byte b; the last one is the end of text

/// A GGUF file's names of the single bytes: GPT-2's characters for them.
inline std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  std::uint32_t beyond = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool shows = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    const std::uint32_t character = shows ? byte : beyond++;
    tokens.push_back(character < 128 ? std::string(1, static_cast<char>(character))
                                     : std::string{static_cast<char>(0xC0 | (character >> 6)),
                                                   static_cast<char>(0x80 | (character & 63))});
  }
  return tokens;
}

/// A Llama of one layer with random weights, whose tokens are the bytes and an end of text, and
/// then `words`: tokens that write whole texts. Half of each `together` ones are equally likely,
/// the first or the others, and some of them far likelier than all bytes.
inline std::string byte_model_gguf(const std::vector<std::string>& words = {}, std::uint32_t context = 4096,
                                   std::size_t together = 4) {
  constexpr std::int64_t kHidden = 16, kHeads = 2, kDim = 8, kFfn = 24;
  const std::int64_t vocab = kByteModelVocab + static_cast<std::int64_t>(words.size());
  GgufWriter writer;
  writer.string("general.architecture", "llama");
  writer.number("llama.block_count", 1)
      .number("llama.context_length", context)
      .number("llama.embedding_length", kHidden);
  writer.number("llama.feed_forward_length", kFfn).number("llama.attention.head_count", kHeads);
  writer.number("llama.attention.head_count_kv", 1).real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  writer.real("llama.rope.freq_base", 1e4F);
  std::vector<std::string> tokens = byte_tokens();
  tokens.push_back("<|end|>");
  std::vector<std::int32_t> types(256, 1);
  types.push_back(3);
  const std::vector<std::string> of_bytes = byte_tokens();
  for (const std::string& word : words) {
    std::string& token = tokens.emplace_back();
    for (const char byte : word) token += of_bytes[static_cast<unsigned char>(byte)];
    types.push_back(1);
  }
  writer.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "qwen2");
  writer.strings("tokenizer.ggml.tokens", tokens).integers("tokenizer.ggml.token_type", types);
  writer.strings("tokenizer.ggml.merges", {}).number("tokenizer.ggml.eos_token_id", 256);
  Rng rng(Seed::from_number(1));
  const auto random = [&](std::int64_t count) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(0.3 * rng.normal()));
    return values;
  };
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    writer.tensor(name, shape, 0, bytes_of(random(count)));
  };
  std::vector<float> embedding = random(kByteModelVocab * kHidden);
  for (std::size_t word = 0; word < words.size(); ++word) {
    std::vector<float> row(kHidden, 0);
    row[word / together % kHidden] = 2 * (word % together) < together ? 100 : -100;
    embedding.insert(embedding.end(), row.begin(), row.end());
  }
  writer.tensor("token_embd.weight", {vocab, kHidden}, 0, bytes_of(embedding));
  add("output_norm.weight", {kHidden});
  add("blk.0.attn_norm.weight", {kHidden});
  add("blk.0.attn_q.weight", {kHeads * kDim, kHidden});
  add("blk.0.attn_k.weight", {kDim, kHidden});
  add("blk.0.attn_v.weight", {kDim, kHidden});
  add("blk.0.attn_output.weight", {kHidden, kHeads * kDim});
  add("blk.0.ffn_norm.weight", {kHidden});
  add("blk.0.ffn_gate.weight", {kFfn, kHidden});
  add("blk.0.ffn_up.weight", {kFfn, kHidden});
  add("blk.0.ffn_down.weight", {kHidden, kFfn});
  return writer.bytes();
}

}  // namespace lathe
