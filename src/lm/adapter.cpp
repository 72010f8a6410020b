#include "lm/adapter.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/fd.h"
#include "base/guard.h"
#include "base/visible_text.h"
#include "model/mapped_file.h"
#include "model/safetensors_writer.h"
#include "record/json.h"

namespace lathe::lm {
namespace {

using Json = nlohmann::json;

constexpr char kConfigFile[] = "/adapter_config.json";
constexpr char kWeightsFile[] = "/adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::size_t kMostConfigBytes = 1 << 20;
constexpr std::int64_t kMostRank = 4096;

/// "model.layers.0.self_attn.q_proj.weight" without its end.
std::string_view stem(std::string_view weight) {
  return weight.substr(0, weight.size() - std::string_view(".weight").size());
}

/// Options that change what an adapter computes, and the values at which they do nothing.
Status refuse_variants(const Json& config, const std::string& file) {
  const auto refuse = [&](std::string_view key) {
    return invalid(fmt::format("'{}' is set", key), "Lathe adds plain LoRA adapters only", {file});
  };
  if (config.value("peft_type", Json("LORA")) != Json("LORA")) return refuse("peft_type");
  if (config.value("bias", Json("none")) != Json("none")) return refuse("bias");
  for (const char* key : {"use_dora", "use_rslora", "fan_in_fan_out", "lora_bias", "use_qalora"})
    if (config.value(key, Json(false)) == Json(true)) return refuse(key);
  for (const char* key : {"modules_to_save", "rank_pattern", "alpha_pattern", "layer_replication",
                          "trainable_token_indices", "target_parameters"}) {
    const auto found = config.find(key);
    if (found != config.end() && !found->is_null() && !found->empty()) return refuse(key);
  }
  return Ok{};
}

Result<Adapter> parse_config(const std::string& file) {
  LATHE_TRY(const std::string text, read_file(file, kMostConfigBytes));
  LATHE_TRY(const Json config, parse_json(text, file));
  if (!config.is_object()) return invalid("it is no JSON object", {}, {file});
  LATHE_CHECK_OK(refuse_variants(config, file));
  Adapter adapter;
  const Json rank = config.value("r", Json()), alpha = config.value("lora_alpha", Json()),
             targets = config.value("target_modules", Json());
  if (!rank.is_number_integer() || rank < 1 || rank > kMostRank || !alpha.is_number() || !targets.is_array())
    return invalid("it needs 'r', 'lora_alpha' and a list 'target_modules'", {}, {file});
  adapter.rank = rank.get<std::int64_t>();
  adapter.alpha = alpha.get<double>();
  if (const Json base = config.value("base_model_name_or_path", Json()); base.is_string())
    adapter.base_model = base.get<std::string>();
  if (const Json dropout = config.value("lora_dropout", Json(0.0)); dropout.is_number())
    adapter.dropout = dropout.get<double>();
  for (const Json& target : targets) {
    if (!target.is_string()) return invalid("target_modules is no list of names", {}, {file});
    adapter.targets.push_back(target.get<std::string>());
  }
  return adapter;
}

at::Tensor tensor_of(const SafetensorsEntry& entry) {
  at::Tensor values = at::empty(entry.shape, at::kFloat);
  dequantise(entry.format, entry.bytes,
             {values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  return values;
}

/// The weight and which half of its pair "base_model.model.….q_proj.lora_A.weight" is.
struct HalfName {
  std::string weight;
  at::Tensor Adapter::Pair::*half;
};
std::optional<HalfName> parse_half(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  for (const auto& [end, half] :
       {std::pair<std::string_view, at::Tensor Adapter::Pair::*>{".lora_A.weight", &Adapter::Pair::down},
        {".lora_B.weight", &Adapter::Pair::up}})
    if (name.ends_with(end))
      return HalfName{std::string(name.substr(0, name.size() - end.size())) + ".weight", half};
  return std::nullopt;
}

}  // namespace

std::string AdaptableMatrix::weight(std::int64_t layer) const {
  return fmt::format("model.layers.{}.{}.weight", layer, module);
}

std::vector<AdaptableMatrix> adaptable_matrices(const ModelConfig& config) {
  const std::int64_t q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  return {{"q_proj", "self_attn.q_proj", q, config.hidden},
          {"k_proj", "self_attn.k_proj", kv, config.hidden},
          {"v_proj", "self_attn.v_proj", kv, config.hidden},
          {"o_proj", "self_attn.o_proj", config.hidden, q},
          {"gate_proj", "mlp.gate_proj", config.ffn, config.hidden},
          {"up_proj", "mlp.up_proj", config.ffn, config.hidden},
          {"down_proj", "mlp.down_proj", config.hidden, config.ffn}};
}

at::Tensor Adapter::addition(const std::string& weight) const {
  const auto found = pairs.find(weight);
  if (found == pairs.end()) return {};
  return at::matmul(found->second.up, found->second.down) * scale();
}

Result<Adapter> read_adapter(const std::string& folder) {
  return without_exceptions([&]() -> Result<Adapter> {
    LATHE_TRY(Adapter adapter, parse_config(folder + kConfigFile));
    const std::string file = folder + kWeightsFile;
    LATHE_TRY(const MappedFile mapped, MappedFile::open(file));
    LATHE_TRY(const auto entries, parse_safetensors(mapped.bytes(), file));
    adapter.bits = entries.empty() ? 32 : 16;
    for (const SafetensorsEntry& entry : entries) {
      if (info(entry.format).block_bytes > 2) adapter.bits = 32;
      const auto half = parse_half(entry.name);
      const std::string shown = visible_line(entry.name.substr(0, 200));
      if (!half) return invalid(fmt::format("the tensor '{}' is no half of an adapter", shown), {}, {file});
      const bool down = half->half == &Adapter::Pair::down;
      if (entry.shape.size() != 2 || entry.shape[down ? 0 : 1] != adapter.rank)
        return Error{ErrorCode::kCorrupt,
                     fmt::format("the tensor '{}' is not of rank {}", shown, adapter.rank),
                     "the two files are of different adapters",
                     {file}};
      if (first_not_finite(entry.format, entry.bytes))
        return Error{ErrorCode::kCorrupt, fmt::format("the tensor '{}' is not finite", shown), {}, {file}};
      adapter.pairs[half->weight].*(half->half) = tensor_of(entry);
    }
    for (const auto& [weight, pair] : adapter.pairs)
      if (!pair.down.defined() || !pair.up.defined())
        return Error{ErrorCode::kCorrupt,
                     fmt::format("'{}' has only half an adapter", visible_line(weight)),
                     "the file is cut or damaged",
                     {file}};
    return adapter;
  });
}

Status write_adapter(const Adapter& adapter, const std::string& folder) {
  LATHE_CHECK_OK(make_directories(folder));
  const bool half = adapter.bits == 16;
  std::vector<at::Tensor> kept;
  std::vector<SafetensorsEntry> entries;
  for (const auto& [weight, pair] : adapter.pairs)
    for (const auto& [part, tensor] : {std::pair("lora_A", pair.down), std::pair("lora_B", pair.up)}) {
      const at::Tensor& plain =
          kept.emplace_back(tensor.detach().to(at::kCPU, half ? at::kBFloat16 : at::kFloat).contiguous());
      entries.push_back({.name = fmt::format("{}{}.{}.weight", kPrefix, stem(weight), part),
                         .shape = plain.sizes().vec(),
                         .format = half ? WeightFormat::kBF16 : WeightFormat::kF32,
                         .bytes = {static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()}});
    }
  LATHE_CHECK_OK(write_safetensors(folder + kWeightsFile, entries, {{"format", "pt"}}));
  const Json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", adapter.base_model},
                       {"r", adapter.rank},
                       {"lora_alpha", adapter.alpha},
                       {"lora_dropout", adapter.dropout},
                       {"target_modules", adapter.targets},
                       {"bias", "none"},
                       {"fan_in_fan_out", false},
                       {"inference_mode", true}};
  return write_file_atomically(folder + kConfigFile, json_text(config, 2) + "\n");
}

Status check_fits(const Adapter& adapter, const ModelConfig& config) {
  std::map<std::string, AdaptableMatrix> known;
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    for (const AdaptableMatrix& matrix : adaptable_matrices(config))
      known.emplace(matrix.weight(layer), matrix);
  constexpr char kHint[] = "use it with the model that it was trained on";
  for (const auto& [weight, pair] : adapter.pairs) {
    const auto found = known.find(weight);
    if (found == known.end())
      return invalid(
          fmt::format("the adapter changes '{}', which the model does not have", visible_line(weight)),
          kHint);
    const AdaptableMatrix& matrix = found->second;
    if (pair.up.size(0) != matrix.out || pair.down.size(1) != matrix.in)
      return invalid(fmt::format("the adapter's addition to '{}' is [{}, {}], but the matrix is [{}, {}]",
                                 weight, pair.up.size(0), pair.down.size(1), matrix.out, matrix.in),
                     kHint);
  }
  return Ok{};
}

Digest digest_with(const Digest& weights, const Adapter& adapter) {
  Hasher hasher;
  hasher.add(weights.hex()).add(fmt::format("{} / {}", adapter.alpha, adapter.rank));
  for (const auto& [name, pair] : adapter.pairs) {
    hasher.add(name);
    for (const at::Tensor& tensor : {pair.down.contiguous(), pair.up.contiguous()})
      hasher.add(std::string_view(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()));
  }
  return hasher.finish();
}

}  // namespace lathe::lm
