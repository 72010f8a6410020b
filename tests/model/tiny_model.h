#pragma once

#include <nlohmann/json.hpp>

#include "tests/model/fixtures.h"

namespace lathe {

/// A Llama of one layer: hidden 8, two heads of four, one key-value head, ffn 12, vocabulary 5.
/// Every weight's elements count up from the weight's number times 1000.
struct TinyModel {
  std::map<std::string, std::pair<std::vector<std::int64_t>, std::string>> weights;  ///< by GGUF's names

  TinyModel() {
    int number = 0;
    for (const auto& [name, shape] :
         std::vector<std::pair<std::string, std::vector<std::int64_t>>>{{"token_embd.weight", {5, 8}},
                                                                        {"output_norm.weight", {8}},
                                                                        {"blk.0.attn_norm.weight", {8}},
                                                                        {"blk.0.attn_q.weight", {8, 8}},
                                                                        {"blk.0.attn_k.weight", {4, 8}},
                                                                        {"blk.0.attn_v.weight", {4, 8}},
                                                                        {"blk.0.attn_output.weight", {8, 8}},
                                                                        {"blk.0.ffn_norm.weight", {8}},
                                                                        {"blk.0.ffn_gate.weight", {12, 8}},
                                                                        {"blk.0.ffn_up.weight", {12, 8}},
                                                                        {"blk.0.ffn_down.weight", {8, 12}}})
      set(name, shape, static_cast<float>(++number * 1000));
  }

  static std::int64_t product(const std::vector<std::int64_t>& shape) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) elements *= extent;
    return elements;
  }
  void set(const std::string& name, const std::vector<std::int64_t>& shape, float first) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < product(shape); ++i) values.push_back(first + static_cast<float>(i));
    weights[name] = {shape, bytes_of(values)};
  }

  /// Its metadata under `architecture`, and its weights as they stand.
  GgufWriter gguf(const std::string& architecture = "llama") const {
    GgufWriter writer;
    const std::string prefix = architecture + ".";
    writer.string("general.architecture", architecture);
    writer.number(prefix + "block_count", 1).number(prefix + "context_length", 64);
    writer.number(prefix + "embedding_length", 8).number(prefix + "feed_forward_length", 12);
    writer.number(prefix + "attention.head_count", 2).number(prefix + "attention.head_count_kv", 1);
    writer.real(prefix + "attention.layer_norm_rms_epsilon", 1e-5f).real(prefix + "rope.freq_base", 5000);
    for (const auto& [name, weight] : weights) writer.tensor(name, weight.first, 0, weight.second);
    return writer;
  }
};

inline nlohmann::json tiny_config() {
  return {{"model_type", "llama"},    {"num_hidden_layers", 1},   {"hidden_size", 8},
          {"num_attention_heads", 2}, {"num_key_value_heads", 1}, {"intermediate_size", 12},
          {"vocab_size", 5},          {"rms_norm_eps", 1e-5},     {"max_position_embeddings", 64},
          {"rope_theta", 5000.0},     {"hidden_act", "silu"},     {"tie_word_embeddings", true}};
}

/// One .safetensors file of fp32 weights under Hugging Face's names.
class SafetensorsWriter {
 public:
  nlohmann::ordered_json header;
  std::string data;

  SafetensorsWriter& add(const std::string& name, const std::vector<std::int64_t>& shape,
                         const std::string& bytes, const std::string& dtype = "F32") {
    header[name] = {
        {"dtype", dtype}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
    return *this;
  }
  std::string bytes() const { return of(header.dump(), data); }
  static std::string of(const std::string& header_text, const std::string& data_bytes) {
    return little_endian<std::uint64_t>(header_text.size()) + header_text + data_bytes;
  }
};

/// The tiny model's weights whose index is odd or even, or (-1) all.
inline SafetensorsWriter tiny_safetensors(int shard = -1) {
  static const std::map<std::string, std::string> kNames = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"output_norm.weight", "model.norm.weight"},
      {"blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"},
      {"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"},
      {"blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj.weight"},
      {"blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight"},
      {"blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight"},
      {"blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"},
      {"blk.0.ffn_gate.weight", "model.layers.0.mlp.gate_proj.weight"},
      {"blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj.weight"},
      {"blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight"}};
  SafetensorsWriter writer;
  int index = 0;
  for (const auto& [name, weight] : TinyModel().weights)
    if (shard < 0 || index++ % 2 == shard) writer.add(kNames.at(name), weight.first, weight.second);
  return writer;
}

}  // namespace lathe
