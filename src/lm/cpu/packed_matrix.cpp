#include "lm/cpu/packed_matrix.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#define LATHE_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))
#define LATHE_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")))
#endif

namespace lathe::lm {
namespace {

constexpr std::int64_t kPanel = 32;
constexpr std::int64_t kMostRows = 12;  ///< whose sums fit into registers: 2 * 12 of 32

/// Some rows of x times one panel.
struct Tile {
  const void* x;          ///< fp32, or pairs of bf16
  std::int64_t x_stride;  ///< between rows, in elements (fp32) or pairs
  const void* panel;
  std::int64_t steps;  ///< inputs, or pairs of them
  const float* bias;   ///< of the panel's outputs, or null
  float* y;
  std::int64_t y_stride;
  std::int64_t columns;  ///< of the panel that exist
};
using TileKernel = void (*)(const Tile&);

#if defined(__x86_64__)

template <int kRows>
LATHE_AVX512 inline void finish(const Tile& tile, __m512 (&sums)[kRows][2]) {
  const auto mask = [&](std::int64_t first) {
    const std::int64_t left = std::clamp<std::int64_t>(tile.columns - first, 0, 16);
    return static_cast<__mmask16>((1u << left) - 1);
  };
  const __mmask16 masks[2] = {mask(0), mask(16)};
  for (int half = 0; half < 2; ++half) {
    const __m512 bias =
        tile.bias ? _mm512_maskz_loadu_ps(masks[half], tile.bias + 16 * half) : _mm512_setzero_ps();
    for (int row = 0; row < kRows; ++row)
      _mm512_mask_storeu_ps(tile.y + row * tile.y_stride + 16 * half, masks[half],
                            _mm512_add_ps(sums[row][half], bias));
  }
}

template <int kRows>
LATHE_AVX512 void multiply_f32(const Tile& tile) {
  const auto* x = static_cast<const float*>(tile.x);
  const auto* w = static_cast<const float*>(tile.panel);
  __m512 sums[kRows][2];
  for (auto& row : sums) row[0] = row[1] = _mm512_setzero_ps();
  for (std::int64_t k = 0; k < tile.steps; ++k, w += kPanel) {
    const __m512 w0 = _mm512_loadu_ps(w), w1 = _mm512_loadu_ps(w + 16);
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) {
      const __m512 value = _mm512_set1_ps(x[row * tile.x_stride + k]);
      sums[row][0] = _mm512_fmadd_ps(value, w0, sums[row][0]);
      sums[row][1] = _mm512_fmadd_ps(value, w1, sums[row][1]);
    }
  }
  finish<kRows>(tile, sums);
}

template <int kRows>
LATHE_AVX512_BF16 void multiply_bf16(const Tile& tile) {
  const auto* x = static_cast<const std::int32_t*>(tile.x);
  const auto* w = static_cast<const std::int32_t*>(tile.panel);
  __m512 sums[kRows][2];
  for (auto& row : sums) row[0] = row[1] = _mm512_setzero_ps();
  for (std::int64_t k = 0; k < tile.steps; ++k, w += kPanel) {
    const auto w0 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w));
    const auto w1 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w + 16));
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) {
      const auto value = reinterpret_cast<__m512bh>(_mm512_set1_epi32(x[row * tile.x_stride + k]));
      sums[row][0] = _mm512_dpbf16_ps(sums[row][0], value, w0);
      sums[row][1] = _mm512_dpbf16_ps(sums[row][1], value, w1);
    }
  }
  finish<kRows>(tile, sums);
}

template <std::size_t... kRows>
constexpr std::array<TileKernel, kMostRows> f32_kernels(std::index_sequence<kRows...>) {
  return {multiply_f32<kRows + 1>...};
}
template <std::size_t... kRows>
constexpr std::array<TileKernel, kMostRows> bf16_kernels(std::index_sequence<kRows...>) {
  return {multiply_bf16<kRows + 1>...};
}
constexpr auto kF32Kernels = f32_kernels(std::make_index_sequence<kMostRows>());
constexpr auto kBf16Kernels = bf16_kernels(std::make_index_sequence<kMostRows>());

bool can_multiply(at::ScalarType type) {
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return wide && (type == at::kFloat || (type == at::kBFloat16 && __builtin_cpu_supports("avx512bf16")));
}
TileKernel kernel(bool bf16, std::int64_t rows) {
  return (bf16 ? kBf16Kernels : kF32Kernels)[static_cast<std::size_t>(rows - 1)];
}

#else
bool can_multiply(at::ScalarType) { return false; }
TileKernel kernel(bool, std::int64_t) { return nullptr; }
#endif

}  // namespace

std::shared_ptr<const PackedMatrix> PackedMatrix::pack(const at::Tensor& weight) {
  if (!weight.is_cpu() || !can_multiply(weight.scalar_type())) return nullptr;
  const std::int64_t out = weight.size(0), in = weight.size(1);
  const std::int64_t grain = weight.scalar_type() == at::kBFloat16 ? 2 : 1;  // inputs of a step
  const std::int64_t panels = (out + kPanel - 1) / kPanel, steps = (in + grain - 1) / grain;
  const at::Tensor from = weight.contiguous();
  at::Tensor to = at::zeros({panels, steps, kPanel, grain}, weight.options());
  const std::size_t size = weight.element_size();
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  at::parallel_for(0, panels, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first * kPanel; row < std::min(last * kPanel, out); ++row)
      for (std::int64_t k = 0; k < in; ++k)
        std::memcpy(target + size * (((row / kPanel * steps + k / grain) * kPanel + row % kPanel) * grain +
                                     k % grain),
                    source + size * (row * in + k), size);
  });
  return std::shared_ptr<const PackedMatrix>(new PackedMatrix(out, in, std::move(to)));
}

at::Tensor PackedMatrix::multiply(const at::Tensor& x, const at::Tensor& bias) const {
  const bool bf16 = panels_.scalar_type() == at::kBFloat16;
  const std::int64_t rows = x.size(0), steps = panels_.size(1);
  at::Tensor input = x.contiguous();
  if (bf16 && in_ % 2 != 0) input = at::constant_pad_nd(input, {0, 1});
  if (bf16) input = input.to(at::kBFloat16);
  at::Tensor y = at::empty({rows, out_}, at::kFloat);
  const auto* from = static_cast<const char*>(input.const_data_ptr());
  const auto* weights = static_cast<const char*>(panels_.const_data_ptr());
  const float* biases = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  float* const to = y.mutable_data_ptr<float>();
  // Rows in blocks of equal height: 13 rows are 7 and 6, not 12 and 1.
  const std::int64_t blocks = (rows + kMostRows - 1) / kMostRows;
  at::parallel_for(0, panels_.size(0), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t panel = first; panel < last; ++panel)
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t begin = rows * block / blocks, end = rows * (block + 1) / blocks;
        kernel(bf16, end - begin)({.x = from + begin * steps * 4,
                                   .x_stride = steps,
                                   .panel = weights + panel * steps * kPanel * 4,
                                   .steps = steps,
                                   .bias = biases ? biases + panel * kPanel : nullptr,
                                   .y = to + begin * out_ + panel * kPanel,
                                   .y_stride = out_,
                                   .columns = std::min(kPanel, out_ - panel * kPanel)});
      }
  });
  return y;
}

}  // namespace lathe::lm
