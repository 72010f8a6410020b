#pragma once

#include "lm/decoder.h"
#include "lm/layer_ops.h"

namespace lathe::lm {

/// Whole sequences at once, in ATen's operations alone: what gradients are taken of, and what the
/// runners' fused operations are tested against. Tokens are those of `batch` sequences of equal
/// length, one after the other.
class PlainOps final : public LayerOps {
 public:
  PlainOps(const Decoder& decoder, std::int64_t batch, std::int64_t length);

  at::Tensor linear(const at::Tensor& x, const Linear& matrix) override;
  at::Tensor logits(const at::Tensor& x, const Linear& matrix) override;
  std::pair<at::Tensor, at::Tensor> add_norm(const at::Tensor& x, const at::Tensor& delta,
                                             const at::Tensor& weight) override;
  at::Tensor attend(const at::Tensor& qkv, const LayerWeights& layer, std::size_t index) override;
  at::Tensor gate(const at::Tensor& gate_up) override;

 private:
  at::Tensor norm(const at::Tensor& x, const at::Tensor& weight) const;
  at::Tensor rotate(const at::Tensor& x) const;

  const ModelConfig& config_;
  at::ScalarType type_;
  std::int64_t batch_, length_;
  at::Tensor cosine_, sine_;  // [length, head_dim / 2]
};

}  // namespace lathe::lm
