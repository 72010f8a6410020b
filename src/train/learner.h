#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lm/decoder.h"
#include "train/low_rank.h"
#include "train/packed_ops.h"
#include "train/packing.h"
#include "train/parameters.h"

namespace lathe::train {

/// A model that is trained, whole or through an adapter: what supervised and reinforcement learning
/// share. A step is: log_probs() of each batch, backward() of a loss made of them, then update().
class Learner {
 public:
  /// The decoder must not be packed.
  static Result<Learner> create(lm::Decoder decoder, const std::optional<LowRankOptions>& adapter,
                                std::uint64_t seed);
  /// Goes on with an adapter.
  static Result<Learner> create(lm::Decoder decoder, const lm::Adapter& adapter);

  const lm::Decoder& decoder() const { return *decoder_; }
  const LowRank* low_rank() const { return low_rank_.get(); }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }
  void use(const TokenKernels& kernels) { kernels_ = &kernels; }

  /// log p of each of batch's targets, fp32, with a gradient. A generator makes dropout drop.
  at::Tensor log_probs(const Batch& batch, std::optional<at::Generator> generator,
                       Logits logits = Logits::kAsHidden) const;
  /// The logits of some tokens at each of batch's places, [places, tokens] in fp32, with a
  /// gradient.
  at::Tensor logits(const Batch& batch, const std::vector<std::int64_t>& tokens) const;
  /// Adds to the gradients of the next update.
  void backward(const at::Tensor& loss);

  /// What an engine computes with: the weights as they are now, with the adapter added. Only as
  /// long as the learner lives where it is.
  lm::WeightReader weights() const;

  /// What an exact continuation needs.
  Status save_state(const std::string& path) const;
  /// Errors: kInvalid for the state of another model or adapter.
  Status load_state(const std::string& path);

  /// Leaves `folder`/adapter, or the whole model in bf16 or fp32 as `folder`/model. `base` names
  /// the model that was trained.
  Status write_result(const std::string& folder, const std::string& base) const;

 private:
  Learner() = default;
  static Learner make(std::unique_ptr<lm::Decoder> decoder, std::unique_ptr<LowRank> low_rank);
  at::Tensor hidden(const Batch& batch, std::optional<at::Generator> generator) const;

  std::unique_ptr<lm::Decoder> decoder_;
  std::unique_ptr<LowRank> low_rank_;
  std::unique_ptr<Parameters> parameters_;
  at::Tensor head_;
  const TokenKernels* kernels_ = &aten_kernels();
};

/// The model's own tensors: joined matrices whole.
NamedTensors trainable_weights(const lm::Decoder& decoder);

/// As Transformers reads it.
std::string config_json(const ModelConfig& config, lm::Precision precision);

}  // namespace lathe::train
