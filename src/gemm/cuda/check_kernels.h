#pragma once

namespace lathe::gemm {

/// What measuring and verification compute on the GPU, simply and apart from the skeletons.
inline constexpr const char* kCheckKernels = R"(
using u16 = unsigned short;
using u32 = unsigned;
using i64 = long long;

__device__ u32 mix(u32 x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ x >> 16;
}
__device__ u32 random_bits(i64 x, i64 y, u32 seed) { return mix(mix(mix(seed) ^ (u32)x) ^ (u32)y); }
__device__ u16 to_half(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
__device__ float to_float(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// Element (x, y) of an operand, y along K, lies at x * step_x + y * step_y. what: 0 uniform in [-1,
// 1), 1 whole numbers in [-8, 8], 2 the accumulator test, 3 (A) one 1 a row, (B) uniform, 4 whole
// numbers in [-1, 1].
extern "C" __global__ void fill(u16* to, i64 extent, i64 k, i64 step_x, i64 step_y, int what, int is_b, u32 seed) {
  const i64 count = extent * k;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
    const i64 x = step_y == 1 ? i / k : i % extent, y = step_y == 1 ? i % k : i / extent;
    const u32 bits = random_bits(x, y, seed + is_b);
    float value = (float)(int)bits * (1.0f / 2147483648.0f);
    if (what == 1) value = (int)(bits % 17) - 8;
    if (what == 4) value = (int)(bits % 3) - 1;
    if (what == 2) {
      // Products of 2112 up to half of K, then of -2112, and odd numbers among them.
      if (y % 4 == 3) value = is_b ? (bits & 1 ? 3 : -1) : (bits & 1 ? 1 : -1);
      else value = is_b ? (2 * y < k ? 33 : -33) : 64;
    }
    if (what == 3 && !is_b) value = y == (x * 7 + 3) % k ? 1 : 0;
    to[x * step_x + y * step_y] = to_half(value);
  }
}

struct Operands {
  const u16 *a, *b, *c, *c_before;
  i64 a_row, a_k, b_column, b_k, ldc, m, n, k;
  float alpha, beta;
};

// Rows blockIdx.y of `rows`: each element must equal the fp64 product, rounded (how = 1), or be as
// near as fp32 sums of these terms and one rounding allow (0), or fp16 sums (2).
extern "C" __global__ void compare(const Operands p, const int* rows, int how, unsigned long long* wrong) {
  const i64 row = rows[blockIdx.y], column = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= p.n) return;
  double sum = 0, size = 0;
  for (i64 i = 0; i < p.k; ++i) {
    const double term = (double)to_float(p.a[row * p.a_row + i * p.a_k]) * to_float(p.b[column * p.b_column + i * p.b_k]);
    sum += term, size += fabs(term);
  }
  sum *= p.alpha, size *= fabs(p.alpha);
  if (p.beta != 0) {
    const double before = (double)p.beta * to_float(p.c_before[row * p.ldc + column]);
    sum += before, size += fabs(before);
  }
  const u16 bits = p.c[row * p.ldc + column];
  const double got = to_float(bits);
  bool right = bits == to_half((float)sum) || (got == 0 && to_float(to_half((float)sum)) == 0);
  if (how != 1 && !right) {
    const double limit = fabs(sum) * 4.9e-4 + size * (how == 2 ? 1e-3 : 1e-6 * (1 + p.k / 4096.0)) + 6e-8;
    right = fabs(got - sum) <= limit;
  }
  if (!right) atomicAdd(wrong, 1ULL);
}

// Halves outside C's elements that are no longer the poison.
extern "C" __global__ void guards(const u16* memory, i64 count, i64 first, i64 m, i64 n, i64 ldc, int poison,
                                  unsigned long long* wrong) {
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
    const i64 at = i - first;
    const bool inside = at >= 0 && at / ldc < m && at % ldc < n;
    if (!inside && memory[i] != poison) atomicAdd(wrong, 1ULL);
  }
}

// A sum over all bits of C that depends on their places.
extern "C" __global__ void checksum(const u16* c, i64 m, i64 n, i64 ldc, unsigned long long* sum) {
  unsigned long long own = 0;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < m * n; i += (i64)gridDim.x * blockDim.x)
    own += (c[i / n * ldc + i % n] + 1ULL) * (2 * i + 1) * 0x9e3779b97f4a7c15ULL;
  atomicAdd(sum, own);
}

// Cycles and nanoseconds of the same stretch of time.
extern "C" __global__ void clocks(long long* result) {
  unsigned long long begin_ns, end_ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin_ns));
  const long long begin = clock64();
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end_ns));
  while (end_ns - begin_ns < 30000);
  result[0] = clock64() - begin;
  result[1] = end_ns - begin_ns;
}
)";

}  // namespace lathe::gemm
