#pragma once

#include <cstdint>

namespace lathe::cuda {

/// A range of memory that `run_jobs` fills or copies, or that `check_jobs` compares. kKeeperKernels
/// declares the same layout, as Job.
struct MemoryJob {
  std::uint64_t to = 0;    ///< of a check: the number to report if a byte differs from `pattern`
  std::uint64_t from = 0;  ///< 0: fill with `pattern`
  std::uint64_t bytes = 0;
  std::uint64_t pattern = 0;  ///< one byte
};

inline constexpr int kChains = 8;  ///< fused multiply-adds per step and thread of `multiply_add`
/// `multiply_...` and `gather_...` run a block of so many threads per square tile of the product.
inline constexpr unsigned kProductThreads = 256, kProductTile = 128;

/// A Product with device addresses. kKeeperKernels declares the same layout.
struct ProductArguments {
  std::uint64_t a = 0, b = 0, c = 0, rows = 0, columns = 0;
  std::int64_t m = 0, n = 0, k = 0, images = 0, image_elements = 0;
  bool a_transposed = false, b_transposed = false;
};

/// Trusted kernels that the keeper runs:
///   - run_jobs(const Job*) fills and copies, with a row of blocks per job;
///   - check_jobs(const Job*, unsigned* least) sets `least` to the least `to` of a job that fails;
///   - stream_read and stream_copy(float4* from, float4* to, int64_t count, int64_t rounds) pass
///     over the same memory `rounds` times, to measure bandwidth;
///   - multiply_add(float* to, int64_t steps) measures the rate of fp32 operations;
///   - multiply_double, multiply_float, gather_double and gather_float(ProductArguments) multiply
///     matrices, the latter two gathered ones, with one block per tile, in row-major order.
inline constexpr const char* kKeeperKernels = R"(
struct Job {
  unsigned long long to, from, bytes, pattern;
};

extern "C" __global__ void run_jobs(const Job* jobs) {
  const Job job = jobs[blockIdx.y];
  const unsigned long long first = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
  const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  const unsigned word = (unsigned)job.pattern * 0x01010101u;
  const bool wide = (job.to | job.from) % 16 == 0;
  const unsigned long long words = wide ? job.bytes / 16 : 0;
  const uint4 filled = make_uint4(word, word, word, word);
  for (unsigned long long i = first; i < words; i += step)
    ((uint4*)job.to)[i] = job.from ? ((const uint4*)job.from)[i] : filled;
  for (unsigned long long i = words * 16 + first; i < job.bytes; i += step)
    ((unsigned char*)job.to)[i] = job.from ? ((const unsigned char*)job.from)[i] : (unsigned char)job.pattern;
}

extern "C" __global__ void check_jobs(const Job* jobs, unsigned* least) {
  const Job job = jobs[blockIdx.y];
  const unsigned word = (unsigned)job.pattern * 0x01010101u;
  const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  const unsigned long long words = job.from % 16 == 0 ? job.bytes / 16 : 0;
  unsigned differ = 0;
  for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < words; i += step) {
    const uint4 got = ((const uint4*)job.from)[i];
    differ |= (got.x ^ word) | (got.y ^ word) | (got.z ^ word) | (got.w ^ word);
  }
  for (unsigned long long i = words * 16 + blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < job.bytes;
       i += step)
    differ |= ((const unsigned char*)job.from)[i] ^ (unsigned)job.pattern;
  if (differ) atomicMin(least, (unsigned)job.to);
}

extern "C" __global__ void stream_read(const float4* __restrict__ from, float4* to, long long count,
                                       long long rounds) {
  float4 sum = {0, 0, 0, 0};
  const long long step = (long long)gridDim.x * blockDim.x;
  const long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (long long round = 0; round < rounds; ++round)
    for (long long i = first; i + 3 * step < count; i += 4 * step) {
      float4 part[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) part[u] = __ldcg(from + i + u * step);
#pragma unroll
      for (int u = 0; u < 4; ++u) sum.x += part[u].x, sum.y += part[u].y, sum.z += part[u].z, sum.w += part[u].w;
    }
  if (sum.x + sum.y + sum.z + sum.w == 12345.0f) *to = sum;
}

extern "C" __global__ void stream_copy(const float4* __restrict__ from, float4* __restrict__ to, long long count,
                                       long long rounds) {
  const long long step = (long long)gridDim.x * blockDim.x;
  const long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (long long round = 0; round < rounds; ++round)
    for (long long i = first; i + 3 * step < count; i += 4 * step) {
      float4 part[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) part[u] = __ldcg(from + i + u * step);
#pragma unroll
      for (int u = 0; u < 4; ++u) __stcg(to + i + u * step, part[u]);
    }
}

extern "C" __global__ void multiply_add(float* to, long long steps) {
  float chain[8];
  for (int c = 0; c < 8; ++c) chain[c] = threadIdx.x + c;
#pragma unroll 16
  for (long long s = 0; s < steps; ++s)
#pragma unroll
    for (int c = 0; c < 8; ++c) chain[c] = chain[c] * 0.999f + 0.5f;
  float sum = 0;
  for (int c = 0; c < 8; ++c) sum += chain[c];
  if (sum == 12345.0f) *to = sum;
}

struct Product {
  unsigned long long a, b, c, rows, columns;
  long long m, n, k, images, image_elements;
  bool a_transposed, b_transposed;
};

constexpr int kTile = 128, kDepth = 16, kThreads = 256, kPart = 8, kAcross = kTile / kPart;

// Elements outside the matrix are zero.
template <class T>
__device__ T element(const T* matrix, long long row, long long column, long long rows, long long columns,
                     bool transposed) {
  if (row >= rows || column >= columns) return 0;
  return transposed ? matrix[column * rows + row] : matrix[row * columns + column];
}

// Each thread computes kPart adjacent rows and kPart columns in pairs; adjacent threads load
// adjacent elements. In a gathered product each thread loads one column, numbered across all
// images.
template <class T, bool kGathered>
__device__ void multiply(const Product& of) {
  __shared__ T left[kDepth][kTile], right[kDepth][kTile];
  const long long columns = of.images * of.n, tiles_across = (columns + kTile - 1) / kTile;
  const long long row = blockIdx.x / tiles_across * kTile, column = blockIdx.x % tiles_across * kTile;
  const int x = threadIdx.x % kAcross * 2, y = threadIdx.x / kAcross * kPart;
  T sum[kPart][kPart] = {};
  const long long* const rows = (const long long*)of.rows;
  const T* image = nullptr;
  if (const long long own = column + threadIdx.x % kTile; kGathered && own < columns)
    image = (const T*)of.b + own / of.n * of.image_elements + ((const long long*)of.columns)[own % of.n];
  for (long long p = 0; p < of.k; p += kDepth) {
#pragma unroll
    for (int i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
      const int long_way = i % kTile, short_way = i / kTile, deep = i % kDepth, wide = i / kDepth;
      const int ar = of.a_transposed ? long_way : wide, ap = of.a_transposed ? short_way : deep;
      left[ap][ar] = element((const T*)of.a, row + ar, p + ap, of.m, of.k, of.a_transposed);
      if (kGathered) {
        right[short_way][long_way] = image && p + short_way < of.k ? image[rows[p + short_way]] : 0;
        continue;
      }
      const int bc = of.b_transposed ? wide : long_way, bp = of.b_transposed ? deep : short_way;
      right[bp][bc] = element((const T*)of.b, p + bp, column + bc, of.k, of.n, of.b_transposed);
    }
    __syncthreads();
#pragma unroll 4
    for (int d = 0; d < kDepth; ++d) {
      T a[kPart], b[kPart];
#pragma unroll
      for (int i = 0; i < kPart; ++i) a[i] = left[d][y + i], b[i] = right[d][x + i / 2 * 2 * kAcross + i % 2];
#pragma unroll
      for (int i = 0; i < kPart; ++i)
#pragma unroll
        for (int j = 0; j < kPart; ++j) sum[i][j] += a[i] * b[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kPart; ++i)
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const long long r = row + y + i, c = column + x + j / 2 * 2 * kAcross + j % 2;
      if (r < of.m && c < columns) ((T*)of.c)[(c / of.n * of.m + r) * of.n + c % of.n] = sum[i][j];
    }
}

extern "C" __global__ void __launch_bounds__(kThreads) multiply_double(Product of) { multiply<double, false>(of); }
extern "C" __global__ void __launch_bounds__(kThreads) multiply_float(Product of) { multiply<float, false>(of); }
extern "C" __global__ void __launch_bounds__(kThreads) gather_double(Product of) { multiply<double, true>(of); }
extern "C" __global__ void __launch_bounds__(kThreads) gather_float(Product of) { multiply<float, true>(of); }
)";

}  // namespace lathe::cuda
