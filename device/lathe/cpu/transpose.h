#pragma once

#include "lathe/cpu/vector.h"

namespace lathe {

/// Transposes the lanes of kLanes vectors: v[i] lane j becomes v[j] lane i.
inline void transpose(f32v (&v)[kLanes]) {
  f32v w[kLanes];
#if defined(__AVX512F__)
  for (int i = 0; i < 16; i += 2) {
    w[i] = _mm512_unpacklo_ps(v[i].v, v[i + 1].v);
    w[i + 1] = _mm512_unpackhi_ps(v[i].v, v[i + 1].v);
  }
  for (int i = 0; i < 16; i += 4) {
    const auto pair = [&](int k) { return _mm512_castps_pd(w[i + k].v); };
    v[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(pair(0), pair(2)));
    v[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(pair(0), pair(2)));
    v[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(pair(1), pair(3)));
    v[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(pair(1), pair(3)));
  }
  for (int i = 0; i < 4; ++i) {
    w[i] = _mm512_shuffle_f32x4(v[i].v, v[i + 4].v, 0x88);
    w[i + 4] = _mm512_shuffle_f32x4(v[i].v, v[i + 4].v, 0xdd);
    w[i + 8] = _mm512_shuffle_f32x4(v[i + 8].v, v[i + 12].v, 0x88);
    w[i + 12] = _mm512_shuffle_f32x4(v[i + 8].v, v[i + 12].v, 0xdd);
  }
  for (int i = 0; i < 8; ++i) {
    v[i] = _mm512_shuffle_f32x4(w[i].v, w[i + 8].v, 0x88);
    v[i + 8] = _mm512_shuffle_f32x4(w[i].v, w[i + 8].v, 0xdd);
  }
#else
  for (int i = 0; i < 8; i += 2) {
    w[i] = _mm256_unpacklo_ps(v[i].v, v[i + 1].v);
    w[i + 1] = _mm256_unpackhi_ps(v[i].v, v[i + 1].v);
  }
  for (int i = 0; i < 8; i += 4) {
    v[i] = _mm256_shuffle_ps(w[i].v, w[i + 2].v, 0x44);
    v[i + 1] = _mm256_shuffle_ps(w[i].v, w[i + 2].v, 0xee);
    v[i + 2] = _mm256_shuffle_ps(w[i + 1].v, w[i + 3].v, 0x44);
    v[i + 3] = _mm256_shuffle_ps(w[i + 1].v, w[i + 3].v, 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    w[i] = _mm256_permute2f128_ps(v[i].v, v[i + 4].v, 0x20);
    w[i + 4] = _mm256_permute2f128_ps(v[i].v, v[i + 4].v, 0x31);
  }
  for (int i = 0; i < 8; ++i) v[i] = w[i];
#endif
}

/// to[j * to_stride + i] = from[i * from_stride + j] for i < rows, j < cols, both at most kLanes.
template <class T>
inline void transpose_block(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows,
                            int64_t cols) {
  if constexpr (__is_same(T, double) || __is_same(T, int32_t) || __is_same(T, int64_t)) {
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = 0; i < rows; ++i) to[j * to_stride + i] = from[i * from_stride + j];
    return;
  }
  f32v v[kLanes];
  const maskv in = first_lanes(cols), out = first_lanes(rows);
  if (rows == kLanes && cols == kLanes) {
    for (int64_t i = 0; i < kLanes; ++i) v[i] = load(from + i * from_stride);
    transpose(v);
    for (int64_t j = 0; j < kLanes; ++j) store(to + j * to_stride, v[j]);
    return;
  }
  for (int64_t i = 0; i < kLanes; ++i) v[i] = i < rows ? load(from + i * from_stride, in) : f32v(0.0f);
  transpose(v);
  for (int64_t j = 0; j < cols; ++j) store(to + j * to_stride, v[j], out);
}

}  // namespace lathe
