#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace lathe::train {

/// Operations of a training step that LibTorch has in many pieces only, each of which would read
/// and write whole activations. One set for each kind of device; none records a gradient. Rows are
/// tokens.
struct TokenKernels {
  /// silu(gate) * up of [n, 2 * ffn].
  at::Tensor (*gate)(const at::Tensor& gate_up);
  /// The gradient of gate_up.
  at::Tensor (*gate_backward)(const at::Tensor& grad, const at::Tensor& gate_up);

  /// Turns pairs (i, i + dim / 2) of the heads of `from`, [n, heads, dim], by the angles whose
  /// cosine and sine are given, [n, dim / 2] in fp32, or back. Both may be parts of wider rows;
  /// `to` has from's dtype.
  void (*rotate)(const at::Tensor& from, const at::Tensor& cosine, const at::Tensor& sine, bool back,
                 const at::Tensor& to);

  struct Norm {
    at::Tensor sum;          ///< x + delta, fp32
    at::Tensor normed;       ///< sum / rms(sum) * weight, of the dtype asked for
    at::Tensor inverse_rms;  ///< [n]
  };
  /// An undefined delta is zero.
  Norm (*add_norm)(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& weight, double eps,
                   at::ScalarType type);
  struct NormGrads {
    at::Tensor x;       ///< fp32
    at::Tensor delta;   ///< of delta's dtype; undefined where there was none
    at::Tensor weight;  ///< fp32
  };
  /// An undefined grad_sum is zero. `delta_type` is kUndefined where there was no delta.
  NormGrads (*add_norm_backward)(const at::Tensor& grad_sum, const at::Tensor& grad_normed,
                                 const at::Tensor& weight, const Norm& forward, at::ScalarType delta_type);

  /// log softmax(logits)[target] and log sum exp(logits) of each row, fp32.
  std::pair<at::Tensor, at::Tensor> (*log_probs)(const at::Tensor& logits, const at::Tensor& targets);
  /// The gradient of the logits, in their dtype; may be written over them.
  at::Tensor (*log_probs_backward)(const at::Tensor& logits, const at::Tensor& targets,
                                   const at::Tensor& log_masses, const at::Tensor& grads);
};

/// On any device, in ATen's operations.
const TokenKernels& aten_kernels();

/// The same with gradients.
at::Tensor gate(const TokenKernels& kernels, const at::Tensor& gate_up);
at::Tensor rotate(const TokenKernels& kernels, const at::Tensor& x, const at::Tensor& cosine,
                  const at::Tensor& sine);
/// The sum and its norm.
std::pair<at::Tensor, at::Tensor> add_norm(const TokenKernels& kernels, const at::Tensor& x,
                                           const at::Tensor& delta, const at::Tensor& weight, double eps,
                                           at::ScalarType type);
/// What logits are rounded to.
enum class Logits {
  kAsHidden,  ///< fast
  kF32        ///< not at all behind their products, as an engine's
};
/// log softmax(hidden head^T)[target] of each row, [n] in fp32, with gradients of `hidden` [n,
/// width] and `head` [vocab, width]. Logits exist for some rows at a time only, and are computed
/// again for the gradient.
at::Tensor token_log_probs(const TokenKernels& kernels, const at::Tensor& hidden, const at::Tensor& head,
                           const at::Tensor& targets, Logits logits = Logits::kAsHidden);

}  // namespace lathe::train
