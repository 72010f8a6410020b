#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/mapped_file.h"
#include "model/weight_format.h"

namespace lathe {

enum class Architecture : std::uint8_t { kLlama, kQwen2, kQwen3 };
std::string_view name_of(Architecture architecture);

/// A decoder: RMS norm, grouped-query attention with rotary positions, gated SiLU feed-forward.
struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t context = 0;  ///< tokens that it was trained for
  double rms_eps = 0;
  double rope_theta = 0;
  /// [head_dim / 2], or empty: pair i turns by position * theta^(-2i/head_dim) / rope_factors[i].
  /// Says linear scaling and Llama 3's; other kinds are refused.
  std::vector<float> rope_factors;
  bool tied_embeddings =
      false;  ///< the logits' matrix is model.embed_tokens.weight; there is no lm_head.weight
  bool qkv_bias = false;
  bool qk_norm = false;  ///< RMS norm of each head of q and k before the rotation: q_norm, k_norm [head_dim]
};

struct WeightInfo {
  std::string name;                 ///< Hugging Face's: "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;  ///< [out, in], or [n]
  WeightFormat format = WeightFormat::kF32;

  std::int64_t elements() const;
  std::size_t stored_bytes() const;
};

/// Configuration and weights of one model, whatever file they lie in. The rows of q and k are in
/// the order of rotary pairs (i, i + head_dim/2), also where a GGUF file interleaves them. Weights
/// are exactly those that the configuration asks for, of its shapes. May be read by several
/// threads.
class Checkpoint {
 public:
  /// A .gguf file; a folder with config.json and model.safetensors or its shards; or the
  /// .safetensors file in it. Errors (kNotFound, kIo, kCorrupt, kInvalid) name the file, the place
  /// in it and the remedy.
  static Result<Checkpoint> open(const std::string& path);

  const ModelConfig& config() const { return config_; }
  /// In the order in which they are used: embeddings, layers, norm, head.
  const std::vector<WeightInfo>& weights() const { return infos_; }
  const WeightInfo* find(std::string_view name) const;

  /// All elements as fp32, on as many threads as the machine has. Errors: kNotFound; kCorrupt where
  /// a value is not finite; kInvalid unless `to` has room for exactly the elements.
  Status read(std::string_view name, std::span<float> to) const;
  /// The bytes of WeightInfo::format, rows in canonical order. Errors as read()'s.
  Status read_stored(std::string_view name, std::span<std::byte> to) const;

 private:
  friend class CheckpointBuilder;
  struct Place {
    std::span<const std::byte> bytes;
    std::int64_t interleaved_heads = 0;  ///< > 0: row 2i + j of a head holds canonical row i + j * head_dim/2
    std::string file;
  };

  using RunReader = std::function<void(std::size_t first_row, std::span<const std::byte> stored)>;

  Result<std::size_t> index_of(std::string_view name) const;
  /// Calls read_run, on several threads, with runs of consecutive canonical rows that are finite.
  Status for_each_run(std::size_t index, const RunReader& read_run) const;

  ModelConfig config_;
  std::vector<WeightInfo> infos_;
  std::vector<Place> places_;
  std::vector<MappedFile> files_;
  std::string path_;
};

}  // namespace lathe
