#pragma once

#include "lathe/cuda/vector.cuh"

// Masks for the remaining lanes of a loop.

namespace lathe {

__device__ inline maskv first_lanes(int64_t n) {
  return each_flag([&](int i) { return int64_t{team_thread()} * kVector + i < n; });
}
/// Two bounds for vector accesses: for tensors whose start and pitch are multiples of kVector, and
/// for arbitrary tensors. Kernels are templates over this `reach`.
struct wide_reach {
  enum : bool { kWide = true };
  __device__ groupv first_lanes(int64_t n) const { return {int64_t{team_thread()} * kVector < n}; }
};
struct any_reach {
  enum : bool { kWide = false };
  __device__ headv first_lanes(int64_t n) const {
    return {static_cast<int>(n < kLanes ? n : int64_t{kLanes}) - team_thread() * kVector};
  }
};
/// The first `n` lanes. `kAll`: these are all lanes, provided that vectors divide the tensor.
template <bool kAll, class Reach>
__device__ inline auto leading_lanes(Reach reach, int64_t n) {
  if constexpr (kAll && Reach::kWide) {
    return everyv();
  } else {
    return reach.first_lanes(n);
  }
}
/// The unroll factor, which is small for arbitrary tensors to limit code size.
template <class Reach>
__device__ constexpr int unrolled(Reach, int times) {
  return Reach::kWide ? times : 1;
}
__device__ inline f32v lane_index() {
  return each([&](int i) { return static_cast<float>(team_thread() * kVector + i); });
}

/// The lanes whose positions `at`, `at` + stride, ... lie in [0, extent).
__device__ inline maskv inside(int64_t at, int64_t stride, int64_t extent) {
  return each_flag([&](int i) {
    const int64_t own = at + (int64_t{team_thread()} * kVector + i) * stride;
    return own >= 0 && own < extent;
  });
}
__device__ inline f32v load_strided(const float* p, int64_t stride, const maskv& m) {
  return each([&](int i) { return m.m[i] ? p[(int64_t{team_thread()} * kVector + i) * stride] : 0.0f; });
}

/// p[at], of whole numbers below 2^24.
__device__ inline f32v gather_at(const float* p, const f32v& at, const maskv& m) {
  return each([&](int i) { return m.m[i] ? p[static_cast<int64_t>(at.v[i])] : 0.0f; });
}

/// Lanes outside the mask become `neutral`.
__device__ inline f32v keep(whole, const f32v& a, float) { return a; }
__device__ inline f32v keep(everyv, const f32v& a, float) { return a; }
__device__ inline f32v keep(groupv m, const f32v& a, float neutral) { return m.in ? a : f32v(neutral); }
__device__ inline f32v keep(headv m, const f32v& a, float neutral) {
  return each([&](int i) { return i < m.left ? a.v[i] : neutral; });
}
__device__ inline f32v keep(const maskv& m, const f32v& a, float neutral) { return select(m, a, f32v(neutral)); }

}  // namespace lathe
