#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

namespace lathe::lm {

class PackedMatrix;

/// y = x weight^T + bias.
struct Linear {
  at::Tensor weight;                                ///< [out, in]; undefined where only `packed` is kept
  at::Tensor bias;                                  ///< [out] or undefined
  std::shared_ptr<const PackedMatrix> packed = {};  ///< the same weights for inference on a CPU, or null
};

/// Matrices that read the same input lie in one: their rows one after the other.
struct LayerWeights {
  at::Tensor attention_norm;  ///< [hidden]
  Linear qkv;                 ///< q, k and v
  at::Tensor q_norm, k_norm;  ///< [head_dim] or undefined
  Linear attention_out;
  at::Tensor ffn_norm;
  Linear gate_up;  ///< gate, then up
  Linear down;
};

/// What a decoder's layers are made of: a step of one implementation may be fused, recorded for a
/// gradient, or use a cache. Activations have one row for each token; the residual stream is fp32.
class LayerOps {
 public:
  virtual ~LayerOps() = default;

  virtual at::Tensor linear(const at::Tensor& x, const Linear& matrix) = 0;
  /// linear(), in fp32 from the last product on.
  virtual at::Tensor logits(const at::Tensor& x, const Linear& matrix) = 0;
  /// The residual stream x + delta, which may be x itself, and its RMS norm times `weight`. An
  /// undefined delta is zero.
  virtual std::pair<at::Tensor, at::Tensor> add_norm(const at::Tensor& x, const at::Tensor& delta,
                                                     const at::Tensor& weight) = 0;
  /// From rows of q, k and v to [rows, heads * head_dim]: norms of heads, rotation, causal
  /// attention.
  virtual at::Tensor attend(const at::Tensor& qkv, const LayerWeights& layer, std::size_t index) = 0;
  /// silu(gate) * up.
  virtual at::Tensor gate(const at::Tensor& gate_up) = 0;
};

}  // namespace lathe::lm
