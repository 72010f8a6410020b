#include "lm/decoder.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "lm/cpu/packed_matrix.h"

namespace lathe::lm {
namespace {

std::string layer_name(std::int64_t layer, std::string_view part) {
  return fmt::format("model.layers.{}.{}", layer, part);
}

constexpr char kEmbedding[] = "model.embed_tokens.weight";
constexpr char kNorm[] = "model.norm.weight";
constexpr char kHead[] = "lm_head.weight";
constexpr double kInitialDeviation = 0.02;

/// The matrices that one Linear joins.
std::vector<std::string> attention_parts(std::int64_t layer) {
  return {layer_name(layer, "self_attn.q_proj"), layer_name(layer, "self_attn.k_proj"),
          layer_name(layer, "self_attn.v_proj")};
}
std::vector<std::string> ffn_parts(std::int64_t layer) {
  return {layer_name(layer, "mlp.gate_proj"), layer_name(layer, "mlp.up_proj")};
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
}

}  // namespace

std::string_view name_of(Precision precision) { return precision == Precision::kF32 ? "f32" : "bf16"; }

at::ScalarType scalar_type(Precision precision) {
  return precision == Precision::kF32 ? at::kFloat : at::kBFloat16;
}

Result<Linear> Decoder::linear(const WeightReader& read, const std::vector<std::string>& names, bool bias) {
  const auto join = [&](std::string_view suffix) -> Result<at::Tensor> {
    std::vector<at::Tensor> parts;
    for (const auto& name : names) {
      LATHE_TRY(at::Tensor part, read(fmt::format("{}.{}", name, suffix)));
      parts.push_back(part.to(scalar_type(options_.precision)));
    }
    return (parts.size() == 1 ? parts[0] : at::cat(parts)).to(options_.device);
  };
  Linear made;
  LATHE_TRY(made.weight, join("weight"));
  if (bias) {
    LATHE_TRY(made.bias, join("bias"));
  }
  weight_bytes_ += bytes_of(made.weight) + bytes_of(made.bias);
  if (options_.packed) {
    made.packed = PackedMatrix::pack(made.weight);
    if (made.packed) made.weight = at::Tensor();
    if (made.bias.defined()) made.bias = made.bias.to(at::kFloat);
  }
  return made;
}

Result<Decoder> Decoder::build(const ModelConfig& config, const DecoderOptions& options,
                               const WeightReader& read) {
  Decoder decoder(config, options);
  const auto vector = [&](const std::string& name) -> Result<at::Tensor> {
    LATHE_TRY(const at::Tensor values, read(name));
    decoder.weight_bytes_ += bytes_of(values);
    return values.to(options.device);
  };
  LATHE_TRY(const at::Tensor embedding, read(kEmbedding));
  decoder.embedding_ = embedding.to(scalar_type(options.precision)).to(options.device);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    LayerWeights layer;
    LATHE_TRY(layer.attention_norm, vector(layer_name(i, "input_layernorm.weight")));
    LATHE_TRY(layer.qkv, decoder.linear(read, attention_parts(i), config.qkv_bias));
    if (config.qk_norm) {
      LATHE_TRY(layer.q_norm, vector(layer_name(i, "self_attn.q_norm.weight")));
      LATHE_TRY(layer.k_norm, vector(layer_name(i, "self_attn.k_norm.weight")));
    }
    LATHE_TRY(layer.attention_out, decoder.linear(read, {layer_name(i, "self_attn.o_proj")}, false));
    LATHE_TRY(layer.ffn_norm, vector(layer_name(i, "post_attention_layernorm.weight")));
    LATHE_TRY(layer.gate_up, decoder.linear(read, ffn_parts(i), false));
    LATHE_TRY(layer.down, decoder.linear(read, {layer_name(i, "mlp.down_proj")}, false));
    decoder.layers_.push_back(std::move(layer));
  }
  LATHE_TRY(decoder.norm_, vector(kNorm));
  if (!config.tied_embeddings) {
    LATHE_TRY(decoder.head_, decoder.linear(read, {"lm_head"}, false));
  } else {
    decoder.head_.weight = decoder.embedding_;
    decoder.weight_bytes_ += bytes_of(decoder.embedding_);
    if (options.packed) {
      decoder.head_.packed = PackedMatrix::pack(decoder.embedding_);
      if (decoder.head_.packed) decoder.head_.weight = at::Tensor();
    }
  }
  return decoder;
}

Result<Decoder> Decoder::load(const Checkpoint& checkpoint, const DecoderOptions& options,
                              const Adapter* adapter) {
  if (adapter) LATHE_CHECK_OK(check_fits(*adapter, checkpoint.config()));
  const WeightReader read = [&](const std::string& name) -> Result<at::Tensor> {
    const WeightInfo* info = checkpoint.find(name);
    if (!info) return Error{ErrorCode::kNotFound, "the model has no weight " + name};
    at::Tensor values = at::empty(info->shape, at::kFloat);
    LATHE_CHECK_OK(
        checkpoint.read(name, {values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())}));
    if (const at::Tensor addition = adapter ? adapter->addition(name) : at::Tensor(); addition.defined())
      values.add_(addition);
    return values;
  };
  return build(checkpoint.config(), options, read);
}

Result<Decoder> Decoder::assemble(const ModelConfig& config, const DecoderOptions& options,
                                  const WeightReader& read) {
  const at::NoGradGuard no_grad;
  return build(config, options, read);
}

Status Decoder::replace_weights(const WeightReader& read) {
  const at::NoGradGuard no_grad;
  LATHE_TRY(Decoder fresh, build(config_, options_, read));
  if (options_.packed) {
    embedding_ = std::move(fresh.embedding_), norm_ = std::move(fresh.norm_);
    layers_ = std::move(fresh.layers_), head_ = std::move(fresh.head_);
    return Ok{};
  }
  // Recorded graphs of a GPU know these by address.
  const auto named = named_weights(), others = fresh.named_weights();
  for (std::size_t i = 0; i < named.size(); ++i) at::Tensor(named[i].second).copy_(others[i].second);
  return Ok{};
}

Decoder Decoder::random(const ModelConfig& config, const DecoderOptions& options, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto shape_of = [&](const std::string& name) -> std::vector<std::int64_t> {
    const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
    const std::int64_t q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
    const bool bias = name.ends_with("bias");
    const auto matrix = [&](std::int64_t out, std::int64_t in) {
      return bias ? std::vector<std::int64_t>{out} : std::vector<std::int64_t>{out, in};
    };
    if (has("embed_tokens") || has("lm_head")) return {config.vocab, config.hidden};
    if (has("q_norm") || has("k_norm")) return {config.head_dim};
    if (has("norm")) return {config.hidden};
    if (has("q_proj")) return matrix(q, config.hidden);
    if (has("k_proj") || has("v_proj")) return matrix(kv, config.hidden);
    if (has("o_proj")) return matrix(config.hidden, q);
    if (has("down_proj")) return matrix(config.hidden, config.ffn);
    return matrix(config.ffn, config.hidden);
  };
  const WeightReader read = [&](const std::string& name) -> Result<at::Tensor> {
    const at::Tensor noise = at::randn(shape_of(name), generator, at::kFloat) * kInitialDeviation;
    return name.find("norm") != std::string::npos ? noise + 1 : noise;
  };
  return build(config, options, read).value();
}

at::Tensor Decoder::hidden(const at::Tensor& tokens, LayerOps& ops) const {
  at::Tensor x = at::embedding(embedding_, tokens).to(at::kFloat);
  at::Tensor delta, normed;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerWeights& layer = layers_[i];
    std::tie(x, normed) = ops.add_norm(x, delta, layer.attention_norm);
    delta = ops.linear(ops.attend(ops.linear(normed, layer.qkv), layer, i), layer.attention_out);
    std::tie(x, normed) = ops.add_norm(x, delta, layer.ffn_norm);
    delta = ops.linear(ops.gate(ops.linear(normed, layer.gate_up)), layer.down);
  }
  return ops.add_norm(x, delta, norm_).second;
}

at::Tensor Decoder::logits(const at::Tensor& hidden, LayerOps& ops) const {
  return ops.logits(hidden, head_);
}

std::vector<std::pair<std::string, at::Tensor>> Decoder::named_weights() const {
  std::vector<std::pair<std::string, at::Tensor>> named;
  if (options_.packed) return named;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined()) named.emplace_back(name, tensor);
  };
  const auto add_parts = [&](const std::vector<std::string>& names, const std::vector<std::int64_t>& rows,
                             const Linear& joined) {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < names.size(); first += rows[i++]) {
      add(names[i] + ".weight", joined.weight.narrow(0, first, rows[i]));
      if (joined.bias.defined()) add(names[i] + ".bias", joined.bias.narrow(0, first, rows[i]));
    }
  };
  const std::int64_t q = config_.heads * config_.head_dim, kv = config_.kv_heads * config_.head_dim;
  add(kEmbedding, embedding_);
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const LayerWeights& layer = layers_[static_cast<std::size_t>(i)];
    add(layer_name(i, "input_layernorm.weight"), layer.attention_norm);
    add_parts(attention_parts(i), {q, kv, kv}, layer.qkv);
    add(layer_name(i, "self_attn.q_norm.weight"), layer.q_norm);
    add(layer_name(i, "self_attn.k_norm.weight"), layer.k_norm);
    add(layer_name(i, "self_attn.o_proj.weight"), layer.attention_out.weight);
    add(layer_name(i, "post_attention_layernorm.weight"), layer.ffn_norm);
    add_parts(ffn_parts(i), {config_.ffn, config_.ffn}, layer.gate_up);
    add(layer_name(i, "mlp.down_proj.weight"), layer.down.weight);
  }
  add(kNorm, norm_);
  if (!config_.tied_embeddings) add(kHead, head_.weight);
  return named;
}

std::pair<at::Tensor, at::Tensor> Decoder::rotary_tables(std::int64_t positions) const {
  const std::int64_t half = config_.head_dim / 2;
  at::Tensor cosine = at::empty({positions, half}, at::kFloat),
             sine = at::empty({positions, half}, at::kFloat);
  float* const c = cosine.mutable_data_ptr<float>();
  float* const s = sine.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < half; ++i) {
    double frequency =
        std::pow(config_.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(config_.head_dim));
    if (!config_.rope_factors.empty())
      frequency /= static_cast<double>(config_.rope_factors[static_cast<std::size_t>(i)]);
    for (std::int64_t p = 0; p < positions; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      c[p * half + i] = static_cast<float>(std::cos(angle));
      s[p * half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return {cosine.to(options_.device), sine.to(options_.device)};
}

Result<Digest> digest_of_weights(const Checkpoint& checkpoint) {
  Hasher hasher;
  std::vector<std::byte> bytes;
  for (const WeightInfo& weight : checkpoint.weights()) {
    bytes.resize(weight.stored_bytes());
    LATHE_CHECK_OK(checkpoint.read_stored(weight.name, bytes));
    hasher.add(weight.name);
    for (const std::int64_t extent : weight.shape) hasher.add(extent);
    hasher.add(static_cast<std::int64_t>(weight.format));
    hasher.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  return hasher.finish();
}

}  // namespace lathe::lm
