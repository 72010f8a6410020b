#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>

#include "base/fd.h"
#include "base/guard.h"
#include "base/visible_text.h"
#include "model/checkpoint_builder.h"
#include "model/safetensors.h"
#include "record/json.h"

namespace lathe {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostConfigJsonBytes = 16 << 20;

const Json& member_of(const Json& object, const char* name) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

/// config.json, as transformers writes it in its versions 4 and 5.
class ConfigFile {
 public:
  ConfigFile(const Json& root, std::string file, ModelConfig& config)
      : root_(root), file_(std::move(file)), config_(config) {}

  Status read() {
    LATHE_CHECK_OK(choose());
    LATHE_CHECK_OK(refuse_variants());
    LATHE_TRY(config_.layers, integer("num_hidden_layers"));
    LATHE_TRY(config_.hidden, integer("hidden_size"));
    LATHE_TRY(config_.heads, integer("num_attention_heads"));
    LATHE_TRY(config_.ffn, integer("intermediate_size"));
    LATHE_TRY(config_.vocab, integer("vocab_size"));
    LATHE_TRY(config_.context, integer("max_position_embeddings"));
    if (config_.heads < 1) return unsupported("the model has no attention heads");
    LATHE_TRY(config_.kv_heads, integer_or("num_key_value_heads", config_.heads));
    const bool wide = config_.architecture == Architecture::kQwen3;
    LATHE_TRY(config_.head_dim, integer_or("head_dim", wide ? 128 : config_.hidden / config_.heads));
    LATHE_TRY(config_.rms_eps, number(root_, "rms_norm_eps", 1e-6));
    const Json& parameters = member_of(root_, "rope_parameters");
    const Json& scaling = parameters.is_object() ? parameters : member_of(root_, "rope_scaling");
    LATHE_TRY(config_.rope_theta, number(parameters.is_object() ? parameters : root_, "rope_theta", 10000));
    config_.qkv_bias =
        config_.architecture == Architecture::kQwen2 || member_of(root_, "attention_bias") == Json(true);
    config_.qk_norm = wide;
    return read_scaling(scaling);
  }

  /// Whether the file says that logits use the embeddings; nothing if it does not say.
  std::optional<bool> tied() const {
    const Json& said = member_of(root_, "tie_word_embeddings");
    return said.is_boolean() ? std::optional(said.get<bool>()) : std::nullopt;
  }

 private:
  Error unsupported(std::string what) const {
    return invalid(std::move(what), "Lathe runs plain Llama, Qwen2 and Qwen3 models (docs/models.md)",
                   {file_});
  }

  Result<std::int64_t> integer(const char* name) const {
    const Json& value = member_of(root_, name);
    if (!value.is_number_integer() || value > INT64_MAX)
      return invalid(fmt::format("'{}' is no integer", name),
                     "give the config.json that belongs to the weights", {file_});
    return value.get<std::int64_t>();
  }
  Result<std::int64_t> integer_or(const char* name, std::int64_t otherwise) const {
    if (member_of(root_, name).is_null()) return otherwise;
    return integer(name);
  }
  Result<double> number(const Json& object, const char* name, double otherwise) const {
    const Json& value = member_of(object, name);
    if (value.is_null()) return otherwise;
    if (!value.is_number())
      return invalid(fmt::format("'{}' is no number", name),
                     "give the config.json that belongs to the weights", {file_});
    return value.get<double>();
  }

  Status choose() {
    const Json& type = member_of(root_, "model_type");
    for (const Architecture architecture :
         {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
      if (type != Json(name_of(architecture))) continue;
      config_.architecture = architecture;
      return Ok{};
    }
    return unsupported("'model_type' is " + visible_line(json_text(type).substr(0, 80)));
  }

  Status refuse_variants() const {
    const Json& activation = member_of(root_, "hidden_act");
    if (!activation.is_null() && activation != Json("silu"))
      return unsupported("the feed-forward's activation is " +
                         visible_line(json_text(activation).substr(0, 80)));
    for (const char* name : {"use_sliding_window", "mlp_bias"})
      if (member_of(root_, name) == Json(true)) return unsupported(fmt::format("'{}' is set", name));
    const Json& rotated = member_of(root_, "partial_rotary_factor");
    if (rotated.is_number() && rotated != Json(1.0))
      return unsupported("only a part of each head is rotated");
    if (!member_of(root_, "quantization_config").is_null())
      return unsupported("the weights are quantised by a method of their own");
    const Json& kinds = member_of(root_, "layer_types");
    if (kinds.is_array() &&
        std::any_of(kinds.begin(), kinds.end(), [](const Json& k) { return k != Json("full_attention"); }))
      return unsupported("some layers do not look at the whole context");
    return Ok{};
  }

  Status read_scaling(const Json& scaling) {
    if (!scaling.is_object()) return Ok{};
    const Json& named = member_of(scaling, "rope_type");
    const Json& type = named.is_null() ? member_of(scaling, "type") : named;
    if (type.is_null() || type == Json("default")) return Ok{};
    if (config_.head_dim < 2 || config_.head_dim > 4096) return Ok{};  // the builder says so
    LATHE_TRY(const double factor, number(scaling, "factor", 1));
    const auto pairs = static_cast<std::size_t>(config_.head_dim / 2);
    if (type == Json("linear")) {
      config_.rope_factors.assign(pairs, static_cast<float>(factor));
      return Ok{};
    }
    if (type != Json("llama3"))
      return unsupported("the rotary positions are scaled by " + visible_line(json_text(type).substr(0, 80)));
    LATHE_TRY(const double low, number(scaling, "low_freq_factor", 1));
    LATHE_TRY(const double high, number(scaling, "high_freq_factor", 4));
    LATHE_TRY(const double trained, number(scaling, "original_max_position_embeddings", 8192));
    if (!(low > 0 && high > low && trained > 0 && factor >= 1))
      return unsupported("the factors of 'rope_scaling' make no sense");
    // Meta's rule: wave lengths beyond trained/low turn `factor` times slower, those below
    // trained/high as before, and between them the frequency is interpolated.
    for (std::size_t i = 0; i < pairs; ++i) {
      const double frequency =
          std::pow(config_.rope_theta, -static_cast<double>(i) / static_cast<double>(pairs));
      const double turns = trained * frequency / (2 * std::numbers::pi);
      const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
      config_.rope_factors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
    }
    return Ok{};
  }

  const Json& root_;
  std::string file_;
  ModelConfig& config_;
};

Result<Json> read_json(const std::string& path) {
  LATHE_TRY(const std::string text, read_file(path, kMostConfigJsonBytes));
  return parse_json(text, path);
}

/// model.safetensors, or the shards that its index names.
Result<std::vector<std::string>> weight_files(const std::string& folder) {
  std::error_code ignored;
  const std::string single = folder + "/model.safetensors";
  const std::string index_path = folder + "/model.safetensors.index.json";
  if (std::filesystem::exists(single, ignored) || !std::filesystem::exists(index_path, ignored))
    return std::vector<std::string>{single};
  LATHE_TRY(const Json index, read_json(index_path));
  const Json& map = member_of(index, "weight_map");
  std::set<std::string> names;
  if (!map.is_object() || map.empty())
    return Error{ErrorCode::kCorrupt, "'weight_map' names no weights", "fetch the file again", {index_path}};
  for (const auto& [weight, file] : map.items()) {
    if (!file.is_string() || file.get_ref<const std::string&>().find('/') != std::string::npos)
      return Error{
          ErrorCode::kCorrupt,
          fmt::format("the weight '{}' lies in no file of this folder", visible_line(weight.substr(0, 80))),
          "fetch the file again",
          {index_path}};
    names.insert(file.get<std::string>());
  }
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back(folder + "/" + name);
  return paths;
}

Result<Checkpoint> open_folder(const std::string& folder, std::vector<std::string> paths) {
  CheckpointBuilder builder;
  builder.path = folder;
  const std::string config_path = folder + "/config.json";
  LATHE_TRY(const Json root, read_json(config_path));
  ConfigFile file(root, config_path, builder.config);
  LATHE_CHECK_OK(file.read());
  if (paths.empty()) {
    LATHE_TRY(paths, weight_files(folder));
  }
  for (const std::string& path : paths) {
    LATHE_TRY(MappedFile mapped, MappedFile::open(path));
    LATHE_TRY(auto entries, parse_safetensors(mapped.bytes(), path));
    builder.files.push_back(std::move(mapped));
    for (SafetensorsEntry& entry : entries) {
      if (entry.name.ends_with(".rotary_emb.inv_freq")) continue;  // derived from the configuration
      FoundWeight found{std::move(entry.shape), entry.format, entry.bytes, 0, path};
      if (!builder.weights.try_emplace(entry.name, std::move(found)).second)
        return Error{ErrorCode::kCorrupt,
                     fmt::format("the weight '{}' lies in two files", visible_line(entry.name.substr(0, 80))),
                     "fetch the model again",
                     {path}};
    }
  }
  const bool has_head = builder.weights.contains("lm_head.weight");
  builder.config.tied_embeddings = file.tied().value_or(!has_head);
  if (builder.config.tied_embeddings) builder.weights.erase("lm_head.weight");  // some files repeat it
  return std::move(builder).build();
}

}  // namespace

Result<Checkpoint> open_safetensors_checkpoint(const std::string& path) {
  return without_exceptions([&]() -> Result<Checkpoint> {
    if (!path.ends_with(".safetensors")) return open_folder(path, {});
    const auto folder = std::filesystem::path(path).parent_path();
    return open_folder(folder.empty() ? "." : folder.string(), {path});
  });
}

}  // namespace lathe
