#pragma once

#include "lathe/cuda/fp8.cuh"
#include "lathe/cuda/hint.cuh"
#include "lathe/cuda/reach.cuh"

// Loads and stores: p is the address of lane 0, the same in all threads.

namespace lathe {

template <int kBytes>
__device__ inline bool is_aligned(const void* p) {
  return reinterpret_cast<uint64_t>(p) % kBytes == 0;
}
__device__ inline bool all_of(const maskv& m) {
  bool all = true;
#pragma unroll
  for (int i = 0; i < kVector; ++i) all = all && m.m[i];
  return all;
}
/// One access of kVector elements; `own` must be aligned to it.
template <class Use>
__device__ inline f32v load_wide(const float* own, Use use) {
  f32v r;
  if constexpr (kVector == 4) {
    const float4 x = fetch(reinterpret_cast<const float4*>(own), use);
    r.v[0] = x.x, r.v[1] = x.y, r.v[2] = x.z, r.v[3] = x.w;
  } else if constexpr (kVector == 2) {
    const float2 x = fetch(reinterpret_cast<const float2*>(own), use);
    r.v[0] = x.x, r.v[1] = x.y;
  } else {
    r.v[0] = fetch(own, use);
  }
  return r;
}
template <class Use>
__device__ inline void store_wide(float* own, const f32v& a, Use use) {
  if constexpr (kVector == 4) {
    put(reinterpret_cast<float4*>(own), make_float4(a.v[0], a.v[1], a.v[2], a.v[3]), use);
  } else if constexpr (kVector == 2) {
    put(reinterpret_cast<float2*>(own), make_float2(a.v[0], a.v[1]), use);
  } else {
    put(own, a.v[0], use);
  }
}
template <class T>
__device__ inline T* own_lanes(T* p) { return p + int64_t{team_thread()} * kVector; }

template <class Use>
__device__ inline f32v load_as(const float* p, whole, Use use) {
  if (is_aligned<4 * kVector>(p)) return load_wide(own_lanes(p), use);
  return each([&](int i) { return own_lanes(p)[i]; });
}
template <class Use>
__device__ inline f32v load_as(const float* p, everyv, Use use) { return load_wide(own_lanes(p), use); }
template <class Use>
__device__ inline f32v load_as(const float* p, groupv m, Use use) {
  f32v r(0.0f);
  if (m.in) r = load_wide(own_lanes(p), use);
  return r;
}
template <class Use>
__device__ inline f32v load_as(const float* p, headv m, Use use) {
  return each([&](int i) { return i < m.left ? fetch(own_lanes(p) + i, use) : 0.0f; });
}
template <class Use>
__device__ inline void store_as(float* p, const f32v& a, everyv, Use use) {
  store_wide(own_lanes(p), a, use);
}
template <class Use>
__device__ inline void store_as(float* p, const f32v& a, groupv m, Use use) {
  if (m.in) store_wide(own_lanes(p), a, use);
}
template <class Use>
__device__ inline void store_as(float* p, const f32v& a, headv m, Use) {
#pragma unroll
  for (int i = 0; i < kVector; ++i)
    if (i < m.left) own_lanes(p)[i] = a.v[i];
}
template <class Use>
__device__ inline f32v load_as(const float* p, const maskv& m, Use use) {
  if (all_of(m) && is_aligned<4 * kVector>(p)) return load_wide(own_lanes(p), use);
  return each([&](int i) { return m.m[i] ? fetch(own_lanes(p) + i, use) : 0.0f; });
}
template <class Use>
__device__ inline void store_as(float* p, const f32v& a, whole, Use use) {
  if (is_aligned<4 * kVector>(p)) return store_wide(own_lanes(p), a, use);
#pragma unroll
  for (int i = 0; i < kVector; ++i) own_lanes(p)[i] = a.v[i];
}
template <class Use>
__device__ inline void store_as(float* p, const f32v& a, const maskv& m, Use use) {
  if (all_of(m) && is_aligned<4 * kVector>(p)) return store_wide(own_lanes(p), a, use);
#pragma unroll
  for (int i = 0; i < kVector; ++i)
    if (m.m[i]) own_lanes(p)[i] = a.v[i];
}
template <class T>
__device__ inline f32v load(const T* p) {
  return each([&](int i) { return static_cast<float>(own_lanes(p)[i]); });
}
template <class T>
__device__ inline void store(T* p, const f32v& a) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) own_lanes(p)[i] = static_cast<T>(a.v[i]);
}
template <class T>
__device__ inline f32v load(const T* p, const maskv& m) {
  return each([&](int i) { return m.m[i] ? static_cast<float>(own_lanes(p)[i]) : 0.0f; });
}
template <class T>
__device__ inline void store(T* p, const f32v& a, const maskv& m) {
#pragma unroll
  for (int i = 0; i < kVector; ++i)
    if (m.m[i]) own_lanes(p)[i] = static_cast<T>(a.v[i]);
}
/// One access of a thread's kVector elements of 16 or 8 bits, which must be aligned to it.
template <class T>
struct alignas(sizeof(T) * kVector) narrowv {
  T of[kVector];
};
template <class T>
__device__ inline f32v load_narrow(const T* p, bool in) {
  f32v r(0.0f);
  if (in) {
    const narrowv<T> own = *reinterpret_cast<const narrowv<T>*>(own_lanes(p));
    r = each([&](int i) { return static_cast<float>(own.of[i]); });
  }
  return r;
}
template <class T>
__device__ inline void store_narrow(T* p, const f32v& a, bool in) {
  narrowv<T> own;
#pragma unroll
  for (int i = 0; i < kVector; ++i) own.of[i] = T(a.v[i]);
  if (in) *reinterpret_cast<narrowv<T>*>(own_lanes(p)) = own;
}
__device__ inline f32v load(const half* p, groupv m) { return load_narrow(p, m.in); }
__device__ inline f32v load(const half* p, everyv) { return load_narrow(p, true); }
__device__ inline f32v load(const bfloat16* p, groupv m) { return load_narrow(p, m.in); }
__device__ inline f32v load(const bfloat16* p, everyv) { return load_narrow(p, true); }
__device__ inline void store(half* p, const f32v& a, groupv m) { store_narrow(p, a, m.in); }
__device__ inline void store(half* p, const f32v& a, everyv) { store_narrow(p, a, true); }
__device__ inline void store(bfloat16* p, const f32v& a, groupv m) { store_narrow(p, a, m.in); }
__device__ inline void store(bfloat16* p, const f32v& a, everyv) { store_narrow(p, a, true); }
template <int kMantissa, bool kHasInfinity>
__device__ inline f32v load(const Fp8<kMantissa, kHasInfinity>* p, groupv m) { return load_narrow(p, m.in); }
template <int kMantissa, bool kHasInfinity>
__device__ inline f32v load(const Fp8<kMantissa, kHasInfinity>* p, everyv) { return load_narrow(p, true); }
template <int kMantissa, bool kHasInfinity>
__device__ inline void store(Fp8<kMantissa, kHasInfinity>* p, const f32v& a, groupv m) {
  store_narrow(p, a, m.in);
}
template <int kMantissa, bool kHasInfinity>
__device__ inline void store(Fp8<kMantissa, kHasInfinity>* p, const f32v& a, everyv) {
  store_narrow(p, a, true);
}
template <class T>
__device__ inline f32v load(const T* p, whole) { return load(p); }
template <class T>
__device__ inline void store(T* p, const f32v& a, whole) { store(p, a); }
__device__ inline f32v load(const float* p) { return load_as(p, whole(), kept_in_cache()); }
__device__ inline f32v load(const float* p, whole m) { return load_as(p, m, kept_in_cache()); }
__device__ inline f32v load(const float* p, const maskv& m) { return load_as(p, m, kept_in_cache()); }
template <class Mask>
__device__ inline f32v load(const float* p, const Mask& m) { return load_as(p, m, kept_in_cache()); }
__device__ inline void store(float* p, const f32v& a) { store_as(p, a, whole(), kept_in_cache()); }
__device__ inline void store(float* p, const f32v& a, whole m) { store_as(p, a, m, kept_in_cache()); }
__device__ inline void store(float* p, const f32v& a, const maskv& m) { store_as(p, a, m, kept_in_cache()); }
template <class Mask>
__device__ inline void store(float* p, const f32v& a, const Mask& m) { store_as(p, a, m, kept_in_cache()); }
/// For data that is read once, and for results that are not read soon.
template <class Mask>
__device__ inline f32v load_past_cache(const float* p, const Mask& m) { return load_as(p, m, past_cache()); }
/// Keeps reads in the cache longer than writes.
template <class Mask>
__device__ inline f32v load_to_stay(const float* p, const Mask& m) { return load_as(p, m, last_in_cache()); }
template <class Mask>
__device__ inline void store_past_cache(float* p, const f32v& a, const Mask& m) {
  store_as(p, a, m, past_cache());
}

}  // namespace lathe
