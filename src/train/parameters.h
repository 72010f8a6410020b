#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/result.h"

namespace lathe::train {

/// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2017).
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< of matrices; vectors (norms, biases) never decay
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// What is trained, laid out in a few long arrays, so that an update, a norm or a sum over machines
/// is a few operations however many tensors there are. Tensors that are computed with in bf16 have
/// a master copy in fp32, which alone is updated: bf16 keeps 8 bits, too few for steps of a
/// thousandth. (Rounding stochastically would save the copy's 4 bytes a parameter, which models of
/// this size do not need, at the price of noise that tests against other implementations would have
/// to allow for.) Gradients of several batches add up in fp32.
class Parameters {
 public:
  /// Leaves that gradients are asked of. Their data moves into the arrays; they stay what the model
  /// reads.
  explicit Parameters(const NamedTensors& leaves);

  std::int64_t count() const;
  /// Of all names, shapes and dtypes.
  const Digest& layout() const { return layout_; }

  /// To be called after each backward pass.
  void collect_gradients();
  /// fp32, of everything collected since the last update.
  std::vector<at::Tensor> gradients() const;
  /// The norm of all gradients before they are scaled to at most `most`; 0: not scaled.
  double clip(double most);
  /// The update of step `step` from 0, after which the gradients are zero.
  void update(const AdamW& options, double learning_rate, std::int64_t step);

  /// What an exact continuation needs, fp32: masters and both moments.
  NamedTensors state() const;
  /// Into what state() names, on any device.
  void state_was_loaded();
  /// The master of a leaf or of a view of one.
  at::Tensor master_of(const at::Tensor& leaf) const;

 private:
  struct Block {
    at::ScalarType type;
    bool decays = false;
    at::Tensor values, value_grads;  ///< what the model reads, and what a backward pass adds to
    at::Tensor master, grads;        ///< fp32; the same arrays where `type` is fp32
    at::Tensor mean, square;         ///< the moments
  };
  std::vector<Block> blocks_;
  Digest layout_;
};

}  // namespace lathe::train
