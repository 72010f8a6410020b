#pragma once

#include "lathe/cpu/integer.h"
#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include "lathe/cpu/vector_avx512.h"
#else
#include "lathe/cpu/vector_avx2.h"
#endif

namespace lathe {

/// Lanes outside the mask become `rest`, the neutral element of the following operation.
inline f32v load(const float* p, maskv m, float rest) { return select(m, load(p, m), f32v(rest)); }

/// Other element types, one element at a time: they only feed masks and conversions and are not
/// performance-critical.
template <class T>
inline f32v load(const T* p, maskv m) {
  alignas(64) float lanes[kLanes] = {};
  const f32v on = select(m, f32v(1.0f), f32v(0.0f));
  alignas(64) float flags[kLanes];
  store(flags, on);
  for (int64_t i = 0; i < kLanes; ++i)
    if (flags[i] != 0.0f) lanes[i] = static_cast<float>(p[i]);
  return load(lanes);
}
template <class T>
inline f32v load(const T* p) {
  alignas(64) float lanes[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = static_cast<float>(p[i]);
  return load(lanes);
}
template <class T>
inline void store(T* p, f32v a, maskv m) {
  alignas(64) float lanes[kLanes];
  alignas(64) float flags[kLanes];
  store(lanes, a);
  store(flags, select(m, f32v(1.0f), f32v(0.0f)));
  for (int64_t i = 0; i < kLanes; ++i)
    if (flags[i] != 0.0f) p[i] = static_cast<T>(lanes[i]);
}
template <class T>
inline void store(T* p, f32v a) {
  alignas(64) float lanes[kLanes];
  store(lanes, a);
  for (int64_t i = 0; i < kLanes; ++i) p[i] = static_cast<T>(lanes[i]);
}

/// A NaN in any lane gives NaN.
inline float reduce_max(f32v a) { return any(is_nan(a)) ? __builtin_nanf("") : largest_lane(a); }
inline float reduce_min(f32v a) { return -reduce_max(-a); }

inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
inline void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

/// Inclusive prefix sum of the lanes.
inline f32v prefix_sum(f32v a) {
  a = a + shift_up<1>(a);
  a = a + shift_up<2>(a);
  a = a + shift_up<4>(a);
  if constexpr (kLanes > 8) a = a + shift_up<8 % kLanes>(a);
  return a;
}

}  // namespace lathe
