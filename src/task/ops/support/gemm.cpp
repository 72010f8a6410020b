#include "task/ops/support/gemm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "base/processors.h"

namespace lathe::ops {
namespace {

// GotoBLAS blocking: a packed panel of A (kMc x kKc) stays in L2, a sliver of B (kKc x 2 vectors)
// in L1; a tile of kMr rows by 2 vectors needs 12 of the 16 AVX registers.
constexpr std::size_t kMr = 6;
constexpr std::size_t kMc = 96;
constexpr std::size_t kKc = 256;
constexpr std::size_t kNc = 1024;

template <class T>
struct Lane;
template <>
struct Lane<double> {
  typedef double Vector __attribute__((vector_size(32)));
};
template <>
struct Lane<float> {
  typedef float Vector __attribute__((vector_size(32)));
};
template <class T>
constexpr std::size_t kWidth = 32 / sizeof(T);
template <class T>
constexpr std::size_t kNr = 2 * kWidth<T>;

template <class T>
struct Tile {
  const T* a;  ///< [k][kMr]
  const T* b;  ///< [k][kNr]
  T* c;        ///< [kMr][kNr], overwritten
};

template <class T>
[[gnu::always_inline]] inline void multiply_tile(std::size_t k, const Tile<T>& tile) {
  using Vector = typename Lane<T>::Vector;
  Vector sum[kMr][2] = {};
  const T* a = tile.a;
  const T* b = tile.b;
  for (std::size_t step = 0; step < k; ++step, a += kMr, b += kNr<T>) {
    Vector low;
    Vector high;
    std::memcpy(&low, b, sizeof(low));
    std::memcpy(&high, b + kWidth<T>, sizeof(high));
#pragma GCC unroll 6
    for (std::size_t row = 0; row < kMr; ++row) {
      sum[row][0] += a[row] * low;
      sum[row][1] += a[row] * high;
    }
  }
  std::memcpy(tile.c, sum, sizeof(sum));
}

[[gnu::target("avx2,fma")]] void multiply_avx2(std::size_t k, const Tile<double>& tile) {
  multiply_tile(k, tile);
}
[[gnu::target("avx2,fma")]] void multiply_avx2(std::size_t k, const Tile<float>& tile) {
  multiply_tile(k, tile);
}

template <class T>
void multiply(bool avx2, std::size_t k, const Tile<T>& tile) {
  avx2 ? multiply_avx2(k, tile) : multiply_tile(k, tile);
}

/// `rows` x k of a view as slivers of `height` rows: [sliver][k][height], padded with zeros.
template <class T>
void pack(MatrixView<T> from, std::size_t rows, std::size_t k, std::size_t height, T* to) {
  for (std::size_t first = 0; first < rows; first += height) {
    const std::size_t used = std::min(height, rows - first);
    const T* sliver = from.data + first * from.row_stride;
    for (std::size_t step = 0; step < k; ++step, to += height) {
      const T* column = sliver + step * from.column_stride;
      for (std::size_t row = 0; row < used; ++row) to[row] = column[row * from.row_stride];
      std::fill(to + used, to + height, T(0));
    }
  }
}

template <class T>
MatrixView<T> transposed(MatrixView<T> view) {
  return {view.data, view.column_stride, view.row_stride};
}

template <class T>
MatrixView<T> at(MatrixView<T> view, std::size_t row, std::size_t column) {
  return {view.data + row * view.row_stride + column * view.column_stride, view.row_stride,
          view.column_stride};
}

struct ProductBlock {
  std::size_t m, n, k;
};

/// C[m, n] += packed A times packed B.
template <class T>
void multiply_block(const ProductBlock& block, const T* a, const T* b, T* c, std::size_t ldc) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  alignas(64) T sums[kMr * kNr<T>];
  for (std::size_t j = 0; j < block.n; j += kNr<T>) {
    const std::size_t columns = std::min(kNr<T>, block.n - j);
    for (std::size_t i = 0; i < block.m; i += kMr) {
      multiply(avx2, block.k, Tile<T>{a + i * block.k, b + j * block.k, sums});
      for (std::size_t row = 0; row < std::min(kMr, block.m - i); ++row) {
        T* to = c + (i + row) * ldc + j;
        for (std::size_t column = 0; column < columns; ++column) to[column] += sums[row * kNr<T> + column];
      }
    }
  }
}

template <class T>
void blocked_gemm(const ProductBlock& size, MatrixView<T> a, MatrixView<T> b, T* c, std::size_t ldc) {
  std::vector<T> packed_a(kMc * kKc);
  std::vector<T> packed_b(std::min(kNc, size.n + kNr<T>) * kKc);
  for (std::size_t row = 0; row < size.m; ++row) std::fill_n(c + row * ldc, size.n, T(0));
  for (std::size_t j = 0; j < size.n; j += kNc) {
    for (std::size_t p = 0; p < size.k; p += kKc) {
      ProductBlock block{0, std::min(kNc, size.n - j), std::min(kKc, size.k - p)};
      pack(transposed(at(b, p, j)), block.n, block.k, kNr<T>, packed_b.data());
      for (std::size_t i = 0; i < size.m; i += kMc) {
        block.m = std::min(kMc, size.m - i);
        pack(at(a, i, p), block.m, block.k, kMr, packed_a.data());
        multiply_block(block, packed_a.data(), packed_b.data(), c + i * ldc + j, ldc);
      }
    }
  }
}

/// Splits C into parts along its longer side, computed in parallel.
template <class T>
void multiply_on_processors(const MatrixProduct<T>& product) {
  const bool across = product.n >= product.m;
  const std::size_t extent = across ? product.n : product.m, step = across ? kNc / 2 : 4 * kMc;
  const double work = static_cast<double>(product.m * product.n) * static_cast<double>(product.k);
  for_each_job(static_cast<std::int64_t>((extent + step - 1) / step), work, [&](std::int64_t i) {
    const std::size_t first = static_cast<std::size_t>(i) * step, count = std::min(step, extent - first);
    if (across)
      blocked_gemm({product.m, count, product.k}, product.a, at(product.b, 0, first), product.c + first,
                   product.n);
    else
      blocked_gemm({count, product.n, product.k}, at(product.a, first, 0), product.b,
                   product.c + first * product.n, product.n);
  });
}

template <class T>
bool multiplied_by(ProductEngine* engine, const MatrixProduct<T>& product) {
  const auto m = static_cast<double>(product.m), n = static_cast<double>(product.n),
             k = static_cast<double>(product.k);
  return engine != nullptr &&
         worth_transferring(m * n * k, m * k + k * n + m * n, usable_processors().size()) &&
         engine->multiply(product).ok();
}

template <class T>
void multiply_anywhere(const MatrixProduct<T>& product, ProductEngine* engine) {
  if (!multiplied_by(engine, product)) multiply_on_processors(product);
}

}  // namespace

void gemm(std::size_t m, std::size_t n, std::size_t k, MatrixView<double> a, MatrixView<double> b, double* c,
          std::size_t ldc) {
  blocked_gemm({m, n, k}, a, b, c, ldc);
}

void gemm(std::size_t m, std::size_t n, std::size_t k, MatrixView<float> a, MatrixView<float> b, float* c,
          std::size_t ldc) {
  blocked_gemm({m, n, k}, a, b, c, ldc);
}

void multiply(const MatrixProduct<double>& product, ProductEngine* engine) {
  multiply_anywhere(product, engine);
}

void multiply(const MatrixProduct<float>& product, ProductEngine* engine) {
  multiply_anywhere(product, engine);
}

}  // namespace lathe::ops
