#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "lm/adapter.h"
#include "lm/layer_ops.h"
#include "model/checkpoint.h"

namespace lathe::lm {

enum class Precision : std::uint8_t { kF32, kBF16 };
std::string_view name_of(Precision precision);
at::ScalarType scalar_type(Precision precision);

struct DecoderOptions {
  Precision precision = Precision::kF32;
  at::Device device = at::kCPU;
  /// Lays matrices out for inference on this processor and drops the originals, which leaves
  /// nothing to train.
  bool packed = false;
};

/// Gives a weight by Hugging Face's name: fp32, on any device, and of nobody else's memory.
using WeightReader = std::function<Result<at::Tensor>(const std::string& name)>;

/// The weights of a Llama, Qwen2 or Qwen3 model and the order of its operations. The same code
/// computes with a gradient (PlainOps), and with a cache (the runners' operations).
class Decoder {
 public:
  /// With an adapter, of the sums: W + alpha / rank * up down.
  static Result<Decoder> load(const Checkpoint& checkpoint, const DecoderOptions& options,
                              const Adapter* adapter = nullptr);
  static Result<Decoder> assemble(const ModelConfig& config, const DecoderOptions& options,
                                  const WeightReader& read);
  /// Takes other weights of the same model, where the device reads these: a runner of this decoder
  /// computes with them from then on. None of its steps may be under way.
  Status replace_weights(const WeightReader& read);
  /// Weights as at the start of a training, for measurements and tests.
  static Decoder random(const ModelConfig& config, const DecoderOptions& options, std::uint64_t seed);

  const ModelConfig& config() const { return config_; }
  const DecoderOptions& options() const { return options_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }
  /// Of all parameters, as the device reads them for one token's logits.
  std::int64_t weight_bytes() const { return weight_bytes_; }

  /// [n, hidden] after the last norm, for n tokens (int32 or int64).
  at::Tensor hidden(const at::Tensor& tokens, LayerOps& ops) const;
  /// [n, vocab] from rows of hidden().
  at::Tensor logits(const at::Tensor& hidden, LayerOps& ops) const;

  /// Every parameter by Hugging Face's name; parts of joined matrices are views. Empty for packed
  /// decoders.
  std::vector<std::pair<std::string, at::Tensor>> named_weights() const;

  /// [positions, head_dim / 2] each, fp32, on the decoder's device: cosine and sine of the rotary
  /// angles.
  std::pair<at::Tensor, at::Tensor> rotary_tables(std::int64_t positions) const;

 private:
  Decoder(ModelConfig config, DecoderOptions options) : config_(std::move(config)), options_(options) {}
  static Result<Decoder> build(const ModelConfig& config, const DecoderOptions& options,
                               const WeightReader& read);
  Result<Linear> linear(const WeightReader& read, const std::vector<std::string>& names, bool bias);

  ModelConfig config_;
  DecoderOptions options_;
  at::Tensor embedding_;
  std::vector<LayerWeights> layers_;
  at::Tensor norm_;
  Linear head_;
  std::int64_t weight_bytes_ = 0;
};

/// Of all names, shapes and stored bytes.
Result<Digest> digest_of_weights(const Checkpoint& checkpoint);

}  // namespace lathe::lm
