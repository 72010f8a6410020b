#pragma once

#include "lathe/cuda/math.cuh"

// A team of threads as one wide vector unit: an f32v holds this thread's kVector neighbouring lanes of
// kLanes = kTeam * kVector. Kernels written against this interface are those of lathe/cpu.h; all threads of a
// team must make the same calls. A team is a warp or a whole block. Defined before inclusion: LATHE_TEAM (a
// power of two from 32) and LATHE_VECTOR (1, 2 or 4).

#ifndef LATHE_TEAM
#define LATHE_TEAM 256
#endif
#ifndef LATHE_VECTOR
#define LATHE_VECTOR 4
#endif

namespace lathe {

// Enumerators and a macro: of constants NVRTC makes variables in memory.
enum : int { kTeam = LATHE_TEAM, kVector = LATHE_VECTOR };
enum : int64_t { kLanes = int64_t{kTeam} * kVector };
#define kInfinity __builtin_inff()
static_assert(kTeam >= 32 && kTeam <= 1024 && (kTeam & (kTeam - 1)) == 0);

__device__ inline int team_thread() { return static_cast<int>(threadIdx.x) % kTeam; }
/// The item of this thread's team: teams take one each.
__device__ inline int64_t first_item() {
  return int64_t{blockIdx.x} * (blockDim.x / kTeam) + threadIdx.x / kTeam;
}

struct maskv {
  bool m[kVector];
};
struct f32v {
  float v[kVector];
  f32v() = default;
  __device__ f32v(float x) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) v[i] = x;
  }
};
/// A mask that is known to hold everywhere.
struct whole {};

template <class Make>
__device__ inline f32v each(Make make) {
  f32v r;
#pragma unroll
  for (int i = 0; i < kVector; ++i) r.v[i] = make(i);
  return r;
}
template <class Make>
__device__ inline maskv each_flag(Make make) {
  maskv r;
#pragma unroll
  for (int i = 0; i < kVector; ++i) r.m[i] = make(i);
  return r;
}

#define LATHE_OPERATOR(op)                                      \
  __device__ inline f32v operator op(const f32v& a, const f32v& b) {       \
    return each([&](int i) { return a.v[i] op b.v[i]; });       \
  }
LATHE_OPERATOR(+)
LATHE_OPERATOR(-)
LATHE_OPERATOR(*)
LATHE_OPERATOR(/)
#undef LATHE_OPERATOR
__device__ inline f32v operator-(const f32v& a) {
  return each([&](int i) { return -a.v[i]; });
}
#define LATHE_UNARY(name)                                       \
  __device__ inline f32v name(const f32v& a) {                             \
    return each([&](int i) { return lathe::name(a.v[i]); });    \
  }
LATHE_UNARY(exp)
LATHE_UNARY(exp2)
LATHE_UNARY(expm1)
LATHE_UNARY(log)
LATHE_UNARY(log2)
LATHE_UNARY(log1p)
LATHE_UNARY(tanh)
LATHE_UNARY(erf)
LATHE_UNARY(sin)
LATHE_UNARY(cos)
LATHE_UNARY(floor)
LATHE_UNARY(ceil)
LATHE_UNARY(round)
LATHE_UNARY(sqrt)
LATHE_UNARY(rsqrt)
LATHE_UNARY(sigmoid)
LATHE_UNARY(abs)
#undef LATHE_UNARY
#define LATHE_BINARY(name)                                              \
  __device__ inline f32v name(const f32v& a, const f32v& b) {                      \
    return each([&](int i) { return lathe::name(a.v[i], b.v[i]); });    \
  }
LATHE_BINARY(max)
LATHE_BINARY(min)
LATHE_BINARY(pow)
LATHE_BINARY(copysign)
#undef LATHE_BINARY
/// May lose a NaN.
__device__ inline f32v fast_max(const f32v& a, const f32v& b) {
  return each([&](int i) { return ::fmaxf(a.v[i], b.v[i]); });
}
__device__ inline f32v fast_min(const f32v& a, const f32v& b) {
  return each([&](int i) { return ::fminf(a.v[i], b.v[i]); });
}
__device__ inline f32v fma(const f32v& a, const f32v& b, const f32v& c) {
  return each([&](int i) { return ::fmaf(a.v[i], b.v[i], c.v[i]); });
}
#define LATHE_COMPARE(name)                                             \
  __device__ inline maskv name(const f32v& a, const f32v& b) {                     \
    return each_flag([&](int i) { return lathe::name(a.v[i], b.v[i]); }); \
  }
LATHE_COMPARE(lt)
LATHE_COMPARE(le)
LATHE_COMPARE(gt)
LATHE_COMPARE(ge)
LATHE_COMPARE(eq)
LATHE_COMPARE(ne)
#undef LATHE_COMPARE
__device__ inline maskv is_nan(const f32v& a) {
  return each_flag([&](int i) { return a.v[i] != a.v[i]; });
}
__device__ inline maskv operator&(const maskv& a, const maskv& b) {
  return each_flag([&](int i) { return a.m[i] && b.m[i]; });
}
__device__ inline maskv operator|(const maskv& a, const maskv& b) {
  return each_flag([&](int i) { return a.m[i] || b.m[i]; });
}
__device__ inline maskv operator~(const maskv& a) {
  return each_flag([&](int i) { return !a.m[i]; });
}
__device__ inline f32v select(const maskv& m, const f32v& yes, const f32v& no) {
  return each([&](int i) { return m.m[i] ? yes.v[i] : no.v[i]; });
}
__device__ inline f32v select(bool m, const f32v& yes, const f32v& no) { return m ? yes : no; }
__device__ inline maskv first_lanes(int64_t n) {
  return each_flag([&](int i) { return int64_t{team_thread()} * kVector + i < n; });
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

// Loads and stores: p is where lane 0 lies, the same in all threads.

template <int kBytes>
__device__ inline bool is_aligned(const void* p) {
  return reinterpret_cast<uint64_t>(p) % kBytes == 0;
}
__device__ inline f32v load(const float* p) {
  const float* const own = p + int64_t{team_thread()} * kVector;
  f32v r;
  if constexpr (kVector == 4) {
    if (is_aligned<16>(p)) {
      const float4 x = *reinterpret_cast<const float4*>(own);
      r.v[0] = x.x, r.v[1] = x.y, r.v[2] = x.z, r.v[3] = x.w;
      return r;
    }
  } else if constexpr (kVector == 2) {
    if (is_aligned<8>(p)) {
      const float2 x = *reinterpret_cast<const float2*>(own);
      r.v[0] = x.x, r.v[1] = x.y;
      return r;
    }
  }
  return each([&](int i) { return own[i]; });
}
__device__ inline void store(float* p, const f32v& a) {
  float* const own = p + int64_t{team_thread()} * kVector;
  if constexpr (kVector == 4) {
    if (is_aligned<16>(p)) {
      *reinterpret_cast<float4*>(own) = make_float4(a.v[0], a.v[1], a.v[2], a.v[3]);
      return;
    }
  } else if constexpr (kVector == 2) {
    if (is_aligned<8>(p)) {
      *reinterpret_cast<float2*>(own) = make_float2(a.v[0], a.v[1]);
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) own[i] = a.v[i];
}
template <class T>
__device__ inline f32v load(const T* p) {
  return each([&](int i) { return static_cast<float>(p[int64_t{team_thread()} * kVector + i]); });
}
template <class T>
__device__ inline void store(T* p, const f32v& a) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) p[int64_t{team_thread()} * kVector + i] = static_cast<T>(a.v[i]);
}
template <class T>
__device__ inline f32v load(const T* p, const maskv& m) {
  return each([&](int i) {
    return m.m[i] ? static_cast<float>(p[int64_t{team_thread()} * kVector + i]) : 0.0f;
  });
}
template <class T>
__device__ inline void store(T* p, const f32v& a, const maskv& m) {
#pragma unroll
  for (int i = 0; i < kVector; ++i)
    if (m.m[i]) p[int64_t{team_thread()} * kVector + i] = static_cast<T>(a.v[i]);
}
template <class T>
__device__ inline f32v load(const T* p, whole) {
  return load(p);
}
template <class T>
__device__ inline void store(T* p, const f32v& a, whole) {
  store(p, a);
}
/// For results that nobody reads soon.
__device__ inline void store_past_cache(float* p, const f32v& a, whole) {
  if constexpr (kVector == 4) {
    if (is_aligned<16>(p)) {
      __stcs(reinterpret_cast<float4*>(p + int64_t{team_thread()} * kVector),
             make_float4(a.v[0], a.v[1], a.v[2], a.v[3]));
      return;
    }
  }
  store(p, a);
}
__device__ inline void store_past_cache(float* p, const f32v& a, const maskv& m) { store(p, a, m); }

/// The lanes of the mask; `neutral` elsewhere.
__device__ inline f32v keep(whole, const f32v& a, float) { return a; }
__device__ inline f32v keep(const maskv& m, const f32v& a, float neutral) { return select(m, a, f32v(neutral)); }

// Reductions: every thread of the team gets the result.

/// What a block's warps exchange.
__device__ inline float* team_shared() {
  __shared__ float parts[32];
  return parts;
}

template <class Join>
__device__ inline float reduce_team(float x, Join join) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = join(x, __shfl_xor_sync(0xffffffffu, x, step));
  if constexpr (kTeam > 32) {
    float* const parts = team_shared();
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    constexpr int kWarps = kTeam / 32;
    x = parts[threadIdx.x % kWarps];
#pragma unroll
    for (int step = kWarps / 2; step > 0; step /= 2) x = join(x, __shfl_xor_sync(0xffffffffu, x, step));
  }
  return x;
}
template <class Join>
__device__ inline float reduce_lanes(const f32v& a, Join join) {
  float x = a.v[0];
#pragma unroll
  for (int i = 1; i < kVector; ++i) x = join(x, a.v[i]);
  return reduce_team(x, join);
}
__device__ inline float reduce_add(const f32v& a) {
  return reduce_lanes(a, [](float x, float y) { return x + y; });
}
__device__ inline float reduce_mul(const f32v& a) {
  return reduce_lanes(a, [](float x, float y) { return x * y; });
}
/// A NaN in any lane gives NaN.
__device__ inline float reduce_max(const f32v& a) {
  return reduce_lanes(a, [](float x, float y) { return lathe::max(x, y); });
}
__device__ inline float reduce_min(const f32v& a) {
  return reduce_lanes(a, [](float x, float y) { return lathe::min(x, y); });
}

/// Extends a running extremum with its index; the first of equals stays.
template <bool kLargest>
__device__ inline void update_extremum(f32v& best, f32v& index, const f32v& value, const f32v& at) {
  const maskv tie = eq(value, best) & lt(at, index);
  const maskv better = (kLargest ? gt(value, best) : lt(value, best)) | tie;
  best = select(better, value, best);
  index = select(better, at, index);
}
template <bool kLargest>
__device__ inline float extremum_index(const f32v& best, const f32v& index) {
  const float value = kLargest ? reduce_max(best) : reduce_min(best);
  return reduce_min(select(eq(best, f32v(value)), index, f32v(kInfinity)));
}

// Prefixes.

/// x joined with those of all threads before this one in the team; `start` in the first.
template <class Join>
__device__ inline float before_me(float x, float start, Join join) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum = x;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float other = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum = join(other, sum);
  }
  float before = __shfl_up_sync(0xffffffffu, sum, 1);
  if (lane == 0) before = start;
  if constexpr (kTeam > 32) {
    float* const parts = team_shared();
    __syncthreads();
    if (lane == 31) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    float warps = start;
    for (int w = 0; w < static_cast<int>(threadIdx.x) / 32; ++w) warps = join(warps, parts[w]);
    before = join(warps, before);
  }
  return before;
}
template <class Join>
__device__ inline f32v prefix(f32v a, float start, Join join) {
#pragma unroll
  for (int i = 1; i < kVector; ++i) a.v[i] = join(a.v[i - 1], a.v[i]);
  const float before = before_me(a.v[kVector - 1], start, join);
  return each([&](int i) { return join(before, a.v[i]); });
}
__device__ inline f32v prefix_sum(const f32v& a) {
  return prefix(a, 0.0f, [](float x, float y) { return x + y; });
}
__device__ inline f32v prefix_product(const f32v& a) {
  return prefix(a, 1.0f, [](float x, float y) { return x * y; });
}
__device__ inline f32v broadcast_last(const f32v& a) {
  if constexpr (kTeam == 32) {
    return f32v(__shfl_sync(0xffffffffu, a.v[kVector - 1], 31));
  } else {
    float* const parts = team_shared();
    __syncthreads();
    if (threadIdx.x == kTeam - 1) parts[0] = a.v[kVector - 1];
    __syncthreads();
    return f32v(parts[0]);
  }
}

// Rows.

template <class T>
__device__ inline void copy_row(T* to, const T* from, int64_t count) {
  for (int64_t i = team_thread(); i < count; i += kTeam) to[i] = from[i];
}
__device__ inline void copy_row(float* to, const float* from, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
  if (i < count) store(to + i, load(from + i, first_lanes(count - i)), first_lanes(count - i));
}
__device__ inline void fill_row(float* to, float value, int64_t count) {
  for (int64_t i = team_thread(); i < count; i += kTeam) to[i] = value;
}

}  // namespace lathe
