#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lm/decoder.h"
#include "train/low_rank.h"
#include "train/packed_ops.h"
#include "train/packing.h"

namespace lathe::train {

/// A model, with an adapter or without, that says how likely tokens are, with gradients as far as
/// its weights have them.
class Scorer {
 public:
  /// The decoder must not be packed. `low_rank` may be null.
  Scorer(std::shared_ptr<const lm::Decoder> decoder, std::shared_ptr<const LowRank> low_rank);

  const lm::Decoder& decoder() const { return *decoder_; }
  const LowRank* low_rank() const { return low_rank_.get(); }
  /// The same model with another adapter, and another model as it is.
  Scorer with(std::shared_ptr<const LowRank> low_rank) const;
  Scorer with(std::shared_ptr<const lm::Decoder> decoder) const;
  void use(const TokenKernels& kernels) { kernels_ = &kernels; }

  /// log p of each of batch's targets, fp32. A generator makes dropout drop.
  at::Tensor log_probs(const Batch& batch, std::optional<at::Generator> generator,
                       Logits logits = Logits::kAsHidden) const;
  /// The logits of some tokens at each of batch's places, [places, tokens] in fp32.
  at::Tensor logits(const Batch& batch, const std::vector<std::int64_t>& tokens) const;

 private:
  at::Tensor hidden(const Batch& batch, std::optional<at::Generator> generator) const;

  std::shared_ptr<const lm::Decoder> decoder_;
  std::shared_ptr<const LowRank> low_rank_;
  at::Tensor head_;
  const TokenKernels* kernels_ = &aten_kernels();
};

}  // namespace lathe::train
