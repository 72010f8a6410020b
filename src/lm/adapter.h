#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "model/checkpoint.h"

namespace lathe::lm {

/// A matrix of each layer that can have an adapter.
struct AdaptableMatrix {
  std::string_view name;    ///< as peft's target_modules has it: "q_proj"
  std::string_view module;  ///< in its layer: "self_attn.q_proj"
  std::int64_t out = 0, in = 0;

  std::string weight(std::int64_t layer) const;  ///< "model.layers.0.self_attn.q_proj.weight"
};
std::vector<AdaptableMatrix> adaptable_matrices(const ModelConfig& config);

/// Low-rank additions to a model's matrices (Hu et al., "LoRA", 2021): W + alpha / rank * up down.
/// Kept in a folder as peft does: adapter_model.safetensors and adapter_config.json.
struct Adapter {
  struct Pair {
    at::Tensor down;  ///< [rank, in], fp32 on the CPU: peft's lora_A
    at::Tensor up;    ///< [out, rank]: lora_B
  };
  std::string base_model;  ///< for people, and for peft
  std::int64_t rank = 0;
  double alpha = 0;
  double dropout = 0;
  std::int64_t bits = 32;             ///< of a number in the file: 32, or 16 (written as bf16)
  std::vector<std::string> targets;   ///< names of adaptable matrices
  std::map<std::string, Pair> pairs;  ///< by the weight: "model.layers.0.self_attn.q_proj.weight"

  double scale() const { return alpha / static_cast<double>(rank); }
  /// What is added to `weight`, [out, in]; undefined where there is nothing.
  at::Tensor addition(const std::string& weight) const;
};

/// `folder` holds both files. Adapters that do more than add pairs (bias, DoRA, patterns of ranks,
/// saved modules) are refused, as are tensors that are missing or of another shape. The error names
/// file and tensor.
Result<Adapter> read_adapter(const std::string& folder);
/// Makes the folder. Each file is replaced atomically.
Status write_adapter(const Adapter& adapter, const std::string& folder);

/// Whether each pair has a matrix of `config`'s model to be added to.
Status check_fits(const Adapter& adapter, const ModelConfig& config);

/// Names what a model computes whose weights have this digest, once the adapter is added.
Digest digest_with(const Digest& weights, const Adapter& adapter);

}  // namespace lathe::lm
