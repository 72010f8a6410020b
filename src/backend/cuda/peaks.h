#pragma once

namespace lathe::cuda {

/// Kernels that reach the limits of a device. `stream_read` and `stream_copy` take (float4* from, float4* to,
/// int64_t count); `multiply_add` takes (float* to, int64_t steps) and does kChains fused multiply-adds a
/// step and thread.
inline constexpr int kChains = 8;
inline constexpr const char* kPeakKernels = R"(
extern "C" __global__ void stream_read(const float4* __restrict__ from, float4* to, long long count) {
  float4 sum = {0, 0, 0, 0};
  const long long step = (long long)gridDim.x * blockDim.x;
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (; i + 3 * step < count; i += 4 * step) {
    float4 part[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) part[u] = __ldcs(from + i + u * step);
#pragma unroll
    for (int u = 0; u < 4; ++u) sum.x += part[u].x, sum.y += part[u].y, sum.z += part[u].z, sum.w += part[u].w;
  }
  if (sum.x + sum.y + sum.z + sum.w == 12345.0f) *to = sum;
}

extern "C" __global__ void stream_copy(const float4* __restrict__ from, float4* __restrict__ to, long long count) {
  const long long step = (long long)gridDim.x * blockDim.x;
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (; i + 3 * step < count; i += 4 * step) {
    float4 part[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) part[u] = __ldcs(from + i + u * step);
#pragma unroll
    for (int u = 0; u < 4; ++u) __stcs(to + i + u * step, part[u]);
  }
}

extern "C" __global__ void multiply_add(float* to, long long steps) {
  float chain[8];
  for (int c = 0; c < 8; ++c) chain[c] = threadIdx.x + c;
  for (long long s = 0; s < steps; ++s)
#pragma unroll
    for (int c = 0; c < 8; ++c) chain[c] = chain[c] * 0.999f + 0.5f;
  float sum = 0;
  for (int c = 0; c < 8; ++c) sum += chain[c];
  if (sum == 12345.0f) *to = sum;
}
)";

}  // namespace lathe::cuda
