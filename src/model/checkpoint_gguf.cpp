#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

#include "base/visible_text.h"
#include "model/checkpoint_builder.h"
#include "model/gguf.h"

namespace lathe {
namespace {

using Names = std::pair<std::string_view, std::string_view>;
constexpr std::array<Names, 3> kModelNames = {{
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
}};
constexpr std::array<Names, 11> kLayerNames = {{
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
}};
constexpr std::string_view kRopeFactors = "rope_freqs.weight";

/// "blk.3.attn_q.bias" becomes "model.layers.3.self_attn.q_proj.bias"; names that are not known
/// stay, and fail later.
std::string canonical_name(std::string_view name) {
  for (const auto& [from, to] : kModelNames)
    if (name == from) return std::string(to);
  if (!name.starts_with("blk.")) return std::string(name);
  const std::size_t layer_end = name.find('.', 4);
  const std::size_t kind = name.rfind('.');
  if (layer_end == name.npos || kind <= layer_end) return std::string(name);
  const std::string_view middle = name.substr(layer_end + 1, kind - layer_end - 1);
  for (const auto& [from, to] : kLayerNames)
    if (middle == from)
      return fmt::format("model.layers.{}.{}{}", name.substr(4, layer_end - 4), to, name.substr(kind));
  return std::string(name);
}

class ConfigReader {
 public:
  ConfigReader(const Gguf& gguf, ModelConfig& config) : gguf_(gguf), config_(config) {}

  Status read() {
    LATHE_TRY(const std::string_view architecture, gguf_.text("general.architecture"));
    LATHE_CHECK_OK(choose(architecture));
    prefix_ = std::string(architecture) + ".";
    LATHE_CHECK_OK(refuse_variants());
    LATHE_TRY(config_.layers, integer("block_count"));
    LATHE_TRY(config_.context, integer("context_length"));
    LATHE_TRY(config_.hidden, integer("embedding_length"));
    LATHE_TRY(config_.ffn, integer("feed_forward_length"));
    LATHE_TRY(config_.heads, integer("attention.head_count"));
    LATHE_TRY(config_.kv_heads, integer_or("attention.head_count_kv", config_.heads));
    LATHE_TRY(config_.rms_eps, gguf_.number(key("attention.layer_norm_rms_epsilon")));
    config_.rope_theta = 10000;
    if (gguf_.has(key("rope.freq_base"))) {
      LATHE_TRY(config_.rope_theta, gguf_.number(key("rope.freq_base")));
    }
    LATHE_CHECK_OK(read_head_dim());
    return read_rope_scaling();
  }

 private:
  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  Result<std::int64_t> integer(std::string_view name) const { return gguf_.integer(key(name)); }
  Result<std::int64_t> integer_or(std::string_view name, std::int64_t otherwise) const {
    if (!gguf_.has(key(name))) return otherwise;
    return integer(name);
  }
  Error unsupported(const std::string& what) const {
    return invalid(what, "Lathe runs plain Llama, Qwen2 and Qwen3 models (docs/models.md)", {gguf_.file()});
  }

  Status choose(std::string_view name) {
    for (const Architecture architecture :
         {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
      if (name != name_of(architecture)) continue;
      config_.architecture = architecture;
      return Ok{};
    }
    return unsupported(fmt::format("the architecture '{}' is unknown", visible_line(name.substr(0, 80))));
  }

  Status refuse_variants() const {
    LATHE_TRY(const std::int64_t experts, integer_or("expert_count", 0));
    if (experts != 0) return unsupported(fmt::format("the model is a mixture of {} experts", experts));
    LATHE_TRY(const std::int64_t window, integer_or("attention.sliding_window", 0));
    if (window != 0)
      return unsupported(fmt::format("the model looks back over a sliding window of {}", window));
    return Ok{};
  }

  Status read_head_dim() {
    if (config_.heads < 1) return unsupported("the model has no attention heads");
    LATHE_TRY(config_.head_dim, integer_or("attention.key_length", config_.hidden / config_.heads));
    LATHE_TRY(const std::int64_t of_values, integer_or("attention.value_length", config_.head_dim));
    LATHE_TRY(const std::int64_t rotated, integer_or("rope.dimension_count", config_.head_dim));
    if (of_values != config_.head_dim || rotated != config_.head_dim)
      return unsupported(fmt::format("heads have {} elements in keys, {} in values, and {} are rotated",
                                     config_.head_dim, of_values, rotated));
    return Ok{};
  }

  Status read_rope_scaling() {
    std::string_view kind = "none";
    double factor = 1;
    if (gguf_.has(key("rope.scaling.type"))) {
      LATHE_TRY(kind, gguf_.text(key("rope.scaling.type")));
    } else if (gguf_.has(key("rope.scale_linear"))) {
      kind = "linear";
      LATHE_TRY(factor, gguf_.number(key("rope.scale_linear")));
    }
    if (kind == "none") return Ok{};
    if (kind != "linear")
      return unsupported(
          fmt::format("the rotary positions are scaled by '{}'", visible_line(kind.substr(0, 80))));
    if (gguf_.has(key("rope.scaling.factor"))) {
      LATHE_TRY(factor, gguf_.number(key("rope.scaling.factor")));
    }
    if (config_.head_dim < 2 || config_.head_dim > 4096) return Ok{};  // the builder says so
    if (factor != 1) config_.rope_factors.assign(config_.head_dim / 2, static_cast<float>(factor));
    return Ok{};
  }

  const Gguf& gguf_;
  ModelConfig& config_;
  std::string prefix_;
};

/// Converters interleave the rows of q and k of Llama models, for an engine that rotates
/// neighbours.
std::int64_t interleaved_heads(const ModelConfig& config, std::string_view name) {
  if (config.architecture != Architecture::kLlama) return 0;
  if (name.find(".q_proj.") != name.npos) return config.heads;
  if (name.find(".k_proj.") != name.npos) return config.kv_heads;
  return 0;
}

}  // namespace

Result<Checkpoint> checkpoint_of(const Gguf& gguf, std::vector<MappedFile> files) {
  CheckpointBuilder builder;
  builder.path = gguf.file();
  builder.files = std::move(files);
  ModelConfig& config = builder.config;
  LATHE_CHECK_OK(ConfigReader(gguf, config).read());
  for (const GgufTensor& tensor : gguf.tensors()) {
    if (tensor.name == kRopeFactors) {
      if (tensor.format != WeightFormat::kF32 || tensor.bytes.size() > 4 * 4096 ||
          !config.rope_factors.empty())
        return invalid("the tensor rope_freqs.weight is no row of F32, or rope scaling is said twice",
                       "convert the model again", {gguf.file()});
      config.rope_factors.resize(tensor.bytes.size() / 4);
      dequantise(tensor.format, tensor.bytes, config.rope_factors);
      continue;
    }
    std::string name = canonical_name(tensor.name);
    FoundWeight found{tensor.shape, tensor.format, tensor.bytes, interleaved_heads(config, name),
                      gguf.file()};
    if (!builder.weights.try_emplace(name, std::move(found)).second)
      return Error{ErrorCode::kCorrupt,
                   fmt::format("the tensor '{}' occurs twice", visible_line(tensor.name)),
                   "the file is damaged; fetch it again",
                   {gguf.file()}};
  }
  const auto has = [&](const char* name) { return builder.weights.contains(name); };
  const auto embeddings = builder.weights.find("model.embed_tokens.weight");
  if (embeddings != builder.weights.end()) config.vocab = embeddings->second.shape.front();
  config.tied_embeddings = !has("lm_head.weight");
  config.qkv_bias =
      config.architecture == Architecture::kQwen2 || has("model.layers.0.self_attn.q_proj.bias");
  config.qk_norm = config.architecture == Architecture::kQwen3;
  return std::move(builder).build();
}

Result<Checkpoint> open_gguf_checkpoint(const std::string& path) {
  std::vector<MappedFile> files;
  LATHE_TRY(MappedFile file, MappedFile::open(path));
  LATHE_TRY(const Gguf gguf, Gguf::parse(file.bytes(), path));
  files.push_back(std::move(file));
  return checkpoint_of(gguf, std::move(files));
}

}  // namespace lathe
