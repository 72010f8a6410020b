#pragma once

#include <optional>
#include <span>

#include "lm/decoder.h"
#include "lm/layer_ops.h"
#include "train/low_rank.h"
#include "train/packing.h"
#include "train/token_kernels.h"

namespace lathe::train {

/// How examples lie in one sequence of tokens, on the decoder's device.
struct PackedLayout {
  std::vector<std::int32_t> bounds;  ///< as Batch's
  std::int32_t longest = 0;
  at::Tensor device_bounds;  ///< int32
  at::Tensor cosine, sine;   ///< [n, head_dim / 2]

  static PackedLayout of(const lm::Decoder& decoder, const Batch& batch);
};

struct PackedOptions {
  const LowRank* low_rank = nullptr;
  std::optional<at::Generator> generator = {};  ///< of dropout; none: nothing is dropped
  const TokenKernels* kernels = &aten_kernels();
};

/// A decoder's operations with gradients, over examples of any lengths in one sequence: a token
/// sees those before it in its own example alone. On a CPU each example is attended to by itself;
/// on a GPU all are, by the flash attention of variable lengths that LibTorch has (bf16 only).
class PackedOps final : public lm::LayerOps {
 public:
  PackedOps(const lm::Decoder& decoder, const PackedLayout& layout, const PackedOptions& options)
      : config_(decoder.config()),
        type_(lm::scalar_type(decoder.options().precision)),
        layout_(layout),
        options_(options) {}

  at::Tensor linear(const at::Tensor& x, const lm::Linear& matrix) override;
  at::Tensor logits(const at::Tensor& x, const lm::Linear& matrix) override;
  std::pair<at::Tensor, at::Tensor> add_norm(const at::Tensor& x, const at::Tensor& delta,
                                             const at::Tensor& weight) override;
  at::Tensor attend(const at::Tensor& qkv, const lm::LayerWeights& layer, std::size_t index) override;
  at::Tensor gate(const at::Tensor& gate_up) override;

 private:
  const ModelConfig& config_;
  at::ScalarType type_;
  const PackedLayout& layout_;
  const PackedOptions& options_;
};

}  // namespace lathe::train
