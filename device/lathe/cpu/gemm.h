#pragma once

#include "lathe/cpu/pairs.h"
#include "lathe/cpu/reduce.h"
#include "lathe/cpu/transpose.h"

// Building blocks of a register-tiled matrix product C[i][j] += A[i][k] B[k][j]. A panel holds, for
// each k, R rows of A or a row segment of B contiguously, so that the tile reads both in order. In
// a product of bf16 a step along K is a pair of numbers (lathe/cpu/pairs.h).

namespace lathe {

/// Rows of A for gemm_tile, packed contiguously for each k.
struct PackedRows {
  const float* from;
  int64_t step;
  float operator()(int64_t k, int r) const { return from[k * step + r]; }
  float last(int64_t k, int r) const { return (*this)(k, r); }
};

/// R unpacked rows of A, `stride` apart; the last row is repeated if fewer than R are left.
template <int R>
struct RowsInPlace {
  const float* row[R];
  RowsInPlace(const float* from, int64_t stride, int64_t rows) {
#pragma GCC unroll 32
    for (int r = 0; r < R; ++r) row[r] = from + min(r, rows - 1) * stride;
  }
  float operator()(int64_t k, int r) const { return row[r][k]; }
};

/// The same of bf16, in pairs; `last` reads only the first number of one.
template <int R>
struct PairedRowsInPlace {
  const bfloat16* row[R];
  PairedRowsInPlace(const bfloat16* from, int64_t stride, int64_t rows) {
#pragma GCC unroll 32
    for (int r = 0; r < R; ++r) row[r] = from + min(r, rows - 1) * stride;
  }
  float operator()(int64_t k, int r) const { return pair_at(row[r] + 2 * k); }
  float last(int64_t k, int r) const { return half_pair_at(row[r] + 2 * k); }
};

/// Columns of B for gemm_tile, in whole vectors.
struct WholeColumns {
  const float* from;
  int64_t step;
  f32v operator()(int64_t k, int v) const { return load(from + k * step + v * kLanes); }
  f32v last(int64_t k, int v) const { return (*this)(k, v); }
};

/// The same with only `columns` columns left.
template <int V>
struct MaskedColumns {
  const float* from;
  int64_t step;
  maskv lanes[V];
  MaskedColumns(const float* first, int64_t row_step, int64_t columns) : from(first), step(row_step) {
    for (int v = 0; v < V; ++v) lanes[v] = first_lanes(columns - v * kLanes);
  }
  f32v operator()(int64_t k, int v) const { return load(from + k * step + v * kLanes, lanes[v]); }
};

/// Columns of B of bf16, `step` from row to row; `last` reads only the first row of a pair.
struct PairedColumns {
  const bfloat16* from;
  int64_t step;
  f32v operator()(int64_t k, int v) const {
    return pairs_across(from + 2 * k * step + v * kLanes, step, 2, all_lanes());
  }
  f32v last(int64_t k, int v) const {
    return pairs_across(from + 2 * k * step + v * kLanes, step, 1, all_lanes());
  }
};

/// The same with only `columns` columns left.
template <int V>
struct MaskedPairedColumns {
  const bfloat16* from;
  int64_t step;
  maskv lanes[V];
  MaskedPairedColumns(const bfloat16* first, int64_t row_step, int64_t columns)
      : from(first), step(row_step) {
    for (int v = 0; v < V; ++v) lanes[v] = first_lanes(columns - v * kLanes);
  }
  f32v operator()(int64_t k, int v) const {
    return pairs_across(from + 2 * k * step + v * kLanes, step, 2, lanes[v]);
  }
  f32v last(int64_t k, int v) const {
    return pairs_across(from + 2 * k * step + v * kLanes, step, 1, lanes[v]);
  }
};

/// acc[r][v] = multiply(left(r), right(v), acc[r][v]).
template <class Left, class Right, class Multiply, int R, int V>
inline __attribute__((always_inline)) void gemm_step(const Left& left, const Right& right,
                                                     const Multiply& multiply, f32v (&acc)[R][V]) {
  f32v row[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) row[v] = right(v);
#pragma GCC unroll 32
  for (int r = 0; r < R; ++r) {
    const f32v value(left(r));
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) acc[r][v] = multiply(value, row[v], acc[r][v]);
  }
}

/// acc[r][v] += sum over k of a(k, r) * b(k, v). R * V accumulators and V + 1 more vectors must fit
/// the registers: 14 x 2 with AVX-512 (32 registers), 6 x 2 with AVX2 (16).
template <class A, class B, int R, int V>
inline __attribute__((always_inline)) void gemm_tile(const A& a, const B& b, int64_t depth,
                                                     f32v (&acc)[R][V]) {
  for (int64_t k = 0; k < depth; ++k)
    gemm_step(
        [&](int r) __attribute__((always_inline)) { return a(k, r); },
        [&](int v) __attribute__((always_inline)) { return b(k, v); },
        [](f32v x, f32v y, f32v sum) __attribute__((always_inline)) { return fma(x, y, sum); }, acc);
}

/// The same of pairs of bf16: `depth` pairs, of `left` numbers along K; of an odd number only the
/// first of the last pair is read.
template <class A, class B, int R, int V>
inline __attribute__((always_inline)) void gemm_pairs(const A& a, const B& b, int64_t depth, int64_t left,
                                                      f32v (&acc)[R][V]) {
  const auto multiply = [](f32v x, f32v y, f32v sum) __attribute__((always_inline)) {
    return dot_pairs(x, y, sum);
  };
  const int64_t whole = min(depth, left / 2);
  for (int64_t k = 0; k < whole; ++k)
    gemm_step(
        [&](int r) __attribute__((always_inline)) { return a(k, r); },
        [&](int v) __attribute__((always_inline)) { return b(k, v); }, multiply, acc);
  if (whole < depth)
    gemm_step(
        [&](int r) __attribute__((always_inline)) { return a.last(whole, r); },
        [&](int v) __attribute__((always_inline)) { return b.last(whole, v); }, multiply, acc);
}

template <int R, int V>
inline void gemm_clear(f32v (&acc)[R][V]) {
#pragma GCC unroll 32
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) acc[r][v] = f32v(0.0f);
}

/// Adds the partial sums at `from` (row-major, `stride`) for the first `rows` rows and `cols`
/// columns.
template <int R, int V>
inline void gemm_add(f32v (&acc)[R][V], const float* from, int64_t stride, int64_t rows, int64_t cols) {
#pragma GCC unroll 32
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      acc[r][v] =
          acc[r][v] + load(from + r * stride + v * kLanes, first_lanes(r < rows ? cols - v * kLanes : 0));
}
template <int R, int V>
inline void gemm_suspend(const f32v (&acc)[R][V], float* to, int64_t stride, int64_t rows, int64_t cols) {
#pragma GCC unroll 32
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      store(to + r * stride + v * kLanes, acc[r][v], first_lanes(r < rows ? cols - v * kLanes : 0));
}

/// put(r, v * kLanes, acc[r][v], lanes) for the first `rows` rows and `cols` columns.
template <int R, int V, class Put>
inline __attribute__((always_inline)) void gemm_put(const f32v (&acc)[R][V], int64_t rows, int64_t cols,
                                                    const Put& put) {
  if (rows >= R && cols >= V * kLanes) {
#pragma GCC unroll 32
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) put(r, v * kLanes, acc[r][v], whole());
    return;
  }
#pragma GCC unroll 32
  for (int r = 0; r < R; ++r) {
    if (r >= rows) continue;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) put(r, v * kLanes, acc[r][v], first_lanes(cols - v * kLanes));
  }
}

/// Like gemm_put through the stack, for epilogues too long to be inlined R * V times.
template <int R, int V, class Put>
inline __attribute__((always_inline)) void gemm_put_looped(const f32v (&acc)[R][V], int64_t rows,
                                                           int64_t cols, const Put& put) {
  alignas(64) float tile[R][V * kLanes];
#pragma GCC unroll 32
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store(&tile[r][v * kLanes], acc[r][v]);
  for (int64_t r = 0; r < min(R, rows); ++r) {
    int64_t j = 0;
    for (; j + kLanes <= min(V * kLanes, cols); j += kLanes) put(r, j, load(&tile[r][j]), whole());
    if (j < min(V * kLanes, cols)) put(r, j, load(&tile[r][j]), first_lanes(cols - j));
  }
}

/// What a step of a dot product loads: kLanes numbers of fp32, or pairs of bf16, of which `left`
/// numbers are there.
inline f32v load_terms(const float* p, int64_t left) {
  return left >= kLanes ? load(p) : load(p, first_lanes(left));
}
inline f32v load_terms(const bfloat16* p, int64_t left) { return pairs_along(p, left); }
inline f32v multiply_terms(const float*, f32v a, f32v b, f32v sum) { return fma(a, b, sum); }
inline f32v multiply_terms(const bfloat16*, f32v a, f32v b, f32v sum) { return dot_pairs(a, b, sum); }

/// acc[r][0]'s lane c: the dot product of row r of A with column c of B, both `depth` long and
/// contiguous, for the first `rows` of R rows and `columns` of C columns. Other results are
/// unspecified.
template <int R, int C, class T>
inline void dot_tile(const T* a, const T* b, int64_t depth, int64_t rows, int64_t columns,
                     f32v (&acc)[R][1]) {
  static_assert(C <= kLanes);
  constexpr int64_t kTerms = kLanes * int64_t{sizeof(float) / sizeof(T)};
  constexpr int64_t kPart = 1024 * kTerms;  // longer sums would lose small terms
  alignas(64) float totals[R][kLanes] = {};
  for (int64_t from = 0; from < depth; from += kPart) {
    const int64_t to = min(depth, from + kPart);
    f32v sums[R][C];
    gemm_clear(sums);
    const auto step = [&](int64_t k, int64_t left) __attribute__((always_inline)) {
      f32v right[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) right[c] = load_terms(b + min(c, columns - 1) * depth + k, left);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const f32v value = load_terms(a + min(r, rows - 1) * depth + k, left);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) sums[r][c] = multiply_terms(a, value, right[c], sums[r][c]);
      }
    };
    int64_t k = from;
    for (; k + kTerms <= to; k += kTerms) step(k, kTerms);
    if (k < to) step(k, to - k);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) totals[r][c] += reduce_add(sums[r][c]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) acc[r][0] = load(totals[r]);
}

/// Packs a panel of `width` elements per step, padded with zeros to W, from memory that is
/// contiguous along the panel's width: get(k, i, lanes) reads elements i, i + 1, ... of step k.
template <int W, class Get>
inline void pack_side_by_side(float* to, int64_t width, int64_t depth, const Get& get) {
  for (int64_t k = 0; k < depth; ++k, to += W)
    for (int64_t i = 0; i < W; i += kLanes)
      store(to + i, get(k, i, first_lanes(width - i)), first_lanes(W - i));
}

/// The same for memory that is contiguous along the steps: get(i, k, lanes) reads steps k, k + 1,
/// ... of element i.
template <int W, class Get>
inline void pack_across(float* to, int64_t width, int64_t depth, const Get& get) {
  for (int64_t i = 0; i < W; i += kLanes) {
    const maskv columns = first_lanes(W - i);
    for (int64_t k = 0; k < depth; k += kLanes) {
      const int64_t steps = min(kLanes, depth - k);
      f32v v[kLanes];
      for (int64_t r = 0; r < kLanes; ++r)
        v[r] = i + r < width ? get(i + r, k, first_lanes(steps)) : f32v(0.0f);
      transpose(v);
      for (int64_t r = 0; r < steps; ++r) store(to + (k + r) * W + i, v[r], columns);
    }
  }
}

}  // namespace lathe
