#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace lathe::lm {

/// A matrix [out, in] laid out for products with few rows on a processor with AVX-512: panels of 32
/// outputs, within a panel input by input. A result's bits do not depend on how many rows are
/// multiplied at once, so an answer does not depend on what is computed beside it.
class PackedMatrix {
 public:
  /// Null where the processor lacks what the weights' type (fp32, bf16) needs: then ATen
  /// multiplies.
  static std::shared_ptr<const PackedMatrix> pack(const at::Tensor& weight);

  /// x weight^T + bias; x [rows, in] and the result are fp32, bias fp32 or undefined. With weights
  /// in bf16, x is rounded to bf16 and sums are fp32.
  at::Tensor multiply(const at::Tensor& x, const at::Tensor& bias) const;

 private:
  PackedMatrix(std::int64_t out, std::int64_t in, at::Tensor panels)
      : out_(out), in_(in), panels_(std::move(panels)) {}

  std::int64_t out_, in_;
  at::Tensor panels_;  // fp32 [panels, in, 32] or bf16 [panels, ceil(in / 2), 32, 2]
};

}  // namespace lathe::lm
