#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lm/decoder.h"
#include "train/low_rank.h"
#include "train/parameters.h"
#include "train/scorer.h"

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

  const lm::Decoder& decoder() const { return scorer_.decoder(); }
  const LowRank* low_rank() const { return scorer_.low_rank(); }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }
  void use(const TokenKernels& kernels) { scorer_.use(kernels); }

  /// The weights that are trained, with a gradient.
  const Scorer& scorer() const { return scorer_; }
  /// The weights as they are, whatever training makes of them: a copy of the adapter, beside the
  /// same model; where all weights are trained, a second model.
  Result<Scorer> freeze() const;
  /// Adds to the gradients of the next update.
  void backward(const at::Tensor& loss);

  /// What an engine computes with: the weights as they are now, with the adapter added. Only as
  /// long as the learner lives where it is.
  lm::WeightReader weights() const;

  /// A number that differs, in all likelihood, where weights or moments do.
  std::int64_t fingerprint() const;

  /// What an exact continuation needs.
  Status save_state(const std::string& path) const;
  /// Errors: kInvalid for the state of another model or adapter.
  Status load_state(const std::string& path);

  /// Leaves `folder`/adapter, or the whole model in bf16 or fp32 as `folder`/model. `base` names
  /// the model that was trained.
  Status write_result(const std::string& folder, const std::string& base) const;

 private:
  Learner(const std::shared_ptr<const lm::Decoder>& decoder, const std::shared_ptr<const LowRank>& low_rank);

  Scorer scorer_;
  std::unique_ptr<Parameters> parameters_;
};

/// The model's own tensors: joined matrices whole.
NamedTensors trainable_weights(const lm::Decoder& decoder);

/// As Transformers reads it.
std::string config_json(const ModelConfig& config, lm::Precision precision);

}  // namespace lathe::train
