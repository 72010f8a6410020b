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
#define kLowest (-3.402823466e38f)
static_assert(kTeam >= 32 && kTeam <= 1024 && (kTeam & (kTeam - 1)) == 0);

__device__ inline int team_thread() { return static_cast<int>(threadIdx.x) % kTeam; }
/// The item of this thread's team: teams take one each.
__device__ inline int64_t first_item() {
  return int64_t{blockIdx.x} * (blockDim.x / kTeam) + threadIdx.x / kTeam;
}

/// Lets the next step's blocks start, and waits until the step before has ended: what follows may read its
/// results. For plans whose later steps are `programmatic`; without effect elsewhere.
__device__ inline void start_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// A mask of leading lanes whose number is a multiple of kVector: each thread's are all in or all out.
struct groupv {
  bool in;
};
/// A mask of leading lanes: `left` counts from this thread's first one, and may be negative.
struct headv {
  int left;
};
struct maskv {
  bool m[kVector];
  maskv() = default;
  __device__ maskv(groupv g) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) m[i] = g.in;
  }
  __device__ maskv(headv h) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) m[i] = i < h.left;
  }
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
/// How far vectors reach in tensors whose pitch is a multiple of kVector and whose start is aligned to one, and
/// in any tensor. Kernels are written once, for a `reach` that is either.
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
/// How often a loop is worth unrolling: the kernel for any tensor stays small.
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

// Loads and stores: p is where lane 0 lies, the same in all threads.

/// How the memory behind a pointer will be used.
struct kept_in_cache {};
struct past_cache {};  ///< nobody reads it again soon

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
template <class Wide>
__device__ inline Wide fetch(const Wide* p, kept_in_cache) { return *p; }
template <class Wide>
__device__ inline Wide fetch(const Wide* p, past_cache) { return __ldcs(p); }
template <class Wide>
__device__ inline void put(Wide* p, const Wide& x, kept_in_cache) { *p = x; }
template <class Wide>
__device__ inline void put(Wide* p, const Wide& x, past_cache) { __stcs(p, x); }

/// One access of kVector elements; `own` is aligned to it.
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
    r.v[0] = *own;
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
__device__ inline T* own_lanes(T* p) {
  return p + int64_t{team_thread()} * kVector;
}

template <class Use>
__device__ inline f32v load_as(const float* p, whole, Use use) {
  if (is_aligned<4 * kVector>(p)) return load_wide(own_lanes(p), use);
  return each([&](int i) { return own_lanes(p)[i]; });
}
template <class Use>
__device__ inline f32v load_as(const float* p, groupv m, Use use) {
  f32v r(0.0f);
  if (m.in) r = load_wide(own_lanes(p), use);
  return r;
}
template <class Use>
__device__ inline f32v load_as(const float* p, headv m, Use) {
  return each([&](int i) { return i < m.left ? own_lanes(p)[i] : 0.0f; });
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
  return each([&](int i) { return m.m[i] ? own_lanes(p)[i] : 0.0f; });
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
template <class T>
__device__ inline f32v load(const T* p, whole) {
  return load(p);
}
template <class T>
__device__ inline void store(T* p, const f32v& a, whole) {
  store(p, a);
}
__device__ inline f32v load(const float* p) { return load_as(p, whole(), kept_in_cache()); }
__device__ inline f32v load(const float* p, whole m) { return load_as(p, m, kept_in_cache()); }
__device__ inline f32v load(const float* p, const maskv& m) { return load_as(p, m, kept_in_cache()); }
__device__ inline f32v load(const float* p, groupv m) { return load_as(p, m, kept_in_cache()); }
__device__ inline f32v load(const float* p, headv m) { return load_as(p, m, kept_in_cache()); }
__device__ inline void store(float* p, const f32v& a) { store_as(p, a, whole(), kept_in_cache()); }
__device__ inline void store(float* p, const f32v& a, whole m) { store_as(p, a, m, kept_in_cache()); }
__device__ inline void store(float* p, const f32v& a, const maskv& m) { store_as(p, a, m, kept_in_cache()); }
__device__ inline void store(float* p, const f32v& a, groupv m) { store_as(p, a, m, kept_in_cache()); }
__device__ inline void store(float* p, const f32v& a, headv m) { store_as(p, a, m, kept_in_cache()); }
/// For data that this kernel reads once, and for results that nobody reads soon.
template <class Mask>
__device__ inline f32v load_past_cache(const float* p, const Mask& m) {
  return load_as(p, m, past_cache());
}
template <class Mask>
__device__ inline void store_past_cache(float* p, const f32v& a, const Mask& m) {
  store_as(p, a, m, past_cache());
}

/// The lanes of the mask; `neutral` elsewhere.
__device__ inline f32v keep(whole, const f32v& a, float) { return a; }
__device__ inline f32v keep(groupv m, const f32v& a, float neutral) { return m.in ? a : f32v(neutral); }
__device__ inline f32v keep(headv m, const f32v& a, float neutral) {
  return each([&](int i) { return i < m.left ? a.v[i] : neutral; });
}
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

/// Extends the largest values so far and the sums of exp(x - largest): kLowest and 0 at first.
__device__ inline void extend_softmax(f32v& top, f32v& sum, const f32v& x) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const float above = x.v[i] - top.v[i], e = lathe::exp(-::fabsf(above));
    const float one = 1.0f + (x.v[i] - x.v[i]);  // NaN for infinity, as in the definition
    sum.v[i] = above > 0 ? sum.v[i] * e + one : sum.v[i] + e;
    top.v[i] = above > 0 ? x.v[i] : top.v[i];
  }
}
__device__ inline void join_softmax(f32v& top, f32v& sum, const f32v& other_top, const f32v& other_sum) {
  const f32v all = each([&](int i) { return ::fmaxf(top.v[i], other_top.v[i]); });
  sum = sum * exp(top - all) + other_sum * exp(other_top - all);
  top = all;
}

/// What the block's warps hold, joined lane by lane in their order. For teams of one warp.
template <class Join>
__device__ inline f32v join_warps(const f32v& mine, Join join) {
  __shared__ float parts[32][kTeam * kVector];
  const int warps = static_cast<int>(blockDim.x) / 32, first = team_thread() * kVector;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kVector; ++i) parts[threadIdx.x / 32][first + i] = mine.v[i];
  __syncthreads();
  f32v all = each([&](int i) { return parts[0][first + i]; });
  for (int w = 1; w < warps; ++w) all = join(all, each([&](int i) { return parts[w][first + i]; }));
  return all;
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
