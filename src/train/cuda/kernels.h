#pragma once

#include <cstdint>

struct CUstream_st;

/// A training step's own kernels, without LibTorch. Activations are bf16 (`Bf16` is a 16-bit word),
/// the residual stream, norms and sums fp32. All launches are asynchronous on `stream`.
namespace lathe::train::cuda {

using Bf16 = std::uint16_t;

/// Counts of elements in a row that the kernels take.
constexpr bool fits_gate(std::int64_t count) { return count % 8 == 0; }
constexpr bool fits_norm(std::int64_t count) { return count % 4 == 0 && count <= 1024; }
constexpr bool fits_logits(std::int64_t count) { return count % 8 == 0; }

void gate(const Bf16* from, Bf16* to, std::int64_t rows, int count, CUstream_st* stream);
void gate_backward(const Bf16* grad, const Bf16* from, Bf16* to, std::int64_t rows, int count,
                   CUstream_st* stream);

/// Heads of one row lie side by side; rows are `from_stride` and `to_stride` elements apart. `sign` -1
/// turns back.
struct Rotation {
  const Bf16* from = nullptr;
  Bf16* to = nullptr;
  std::int64_t from_stride = 0, to_stride = 0;
  const float *cosine = nullptr, *sine = nullptr;
  std::int64_t rows = 0;
  int heads = 0, dim = 0;
  float sign = 1;
};
void rotate(const Rotation& rotation, CUstream_st* stream);

struct Norm {
  const float* x = nullptr;
  const Bf16* delta = nullptr;  ///< or null
  const float* weight = nullptr;
  float* sum = nullptr;  ///< null: where there is no delta
  Bf16* normed = nullptr;
  float* inverse_rms = nullptr;
  std::int64_t rows = 0;
  int count = 0;
  float eps = 0;
};
void add_norm(const Norm& norm, CUstream_st* stream);

struct NormBackward {
  const float* grad_sum = nullptr;  ///< or null
  const Bf16* grad_normed = nullptr;
  const float *sum = nullptr, *inverse_rms = nullptr, *weight = nullptr;
  float* grad_x = nullptr;
  Bf16* grad_delta = nullptr;        ///< or null
  float* weight_partials = nullptr;  ///< [norm_partials(), count]: their sum is the weight's gradient
  std::int64_t rows = 0;
  int count = 0;
};
int norm_partials();
void add_norm_backward(const NormBackward& backward, CUstream_st* stream);

void log_probs(const Bf16* logits, const std::int64_t* targets, float* log_probs, float* log_masses,
               std::int64_t rows, int vocab, CUstream_st* stream);
/// Writes over the logits.
void log_probs_backward(Bf16* logits, const std::int64_t* targets, const float* log_masses,
                        const float* grads, std::int64_t rows, int vocab, CUstream_st* stream);

}  // namespace lathe::train::cuda
