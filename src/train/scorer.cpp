#include "train/scorer.h"

#include <ATen/ATen.h>

#include "train/to_tensor.h"

namespace lathe::train {

Scorer::Scorer(std::shared_ptr<const lm::Decoder> decoder, std::shared_ptr<const LowRank> low_rank)
    : decoder_(std::move(decoder)), low_rank_(std::move(low_rank)) {
  for (const auto& [name, tensor] : decoder_->named_weights())
    if (name == "model.embed_tokens.weight" || name == "lm_head.weight") head_ = tensor;
}

Scorer Scorer::with(std::shared_ptr<const LowRank> low_rank) const {
  Scorer other = *this;
  other.low_rank_ = std::move(low_rank);
  return other;
}

Scorer Scorer::with(std::shared_ptr<const lm::Decoder> decoder) const {
  Scorer other(std::move(decoder), nullptr);
  other.kernels_ = kernels_;
  return other;
}

/// Of the places behind which something is predicted.
at::Tensor Scorer::hidden(const Batch& batch, std::optional<at::Generator> generator) const {
  const at::Device device = decoder_->options().device;
  const PackedLayout layout = PackedLayout::of(*decoder_, batch);
  const PackedOptions options{low_rank_.get(), std::move(generator), kernels_};
  PackedOps ops(*decoder_, layout, options);
  return decoder_->hidden(to_tensor(batch.tokens, device), ops)
      .index_select(0, to_tensor(batch.places, device));
}

at::Tensor Scorer::log_probs(const Batch& batch, std::optional<at::Generator> generator,
                             Logits logits) const {
  return token_log_probs(*kernels_, hidden(batch, std::move(generator)), head_,
                         to_tensor(batch.targets, decoder_->options().device), logits);
}

at::Tensor Scorer::logits(const Batch& batch, const std::vector<std::int64_t>& tokens) const {
  const at::Tensor rows = head_.index_select(0, to_tensor(tokens, decoder_->options().device));
  return at::linear(hidden(batch, std::nullopt).to(at::kFloat), rows.to(at::kFloat));
}

}  // namespace lathe::train
