/*lathe
[[launch]]
kernel = "f"
grid   = ["H * S"]
block  = [128]
args   = ["q", "k", "v", "y", "S"]
*/
// Has room for 120 scores and leaves the keys behind them out.
#include <lathe/cuda.cuh>

/// The same in all 128 threads: theirs, added or the largest.
inline float join(float mine, bool add) {
  __shared__ float warps[4];
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, mine, step);
    mine = add ? mine + other : fmaxf(mine, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  float all = warps[0];
  for (int warp = 1; warp < 4; ++warp) all = add ? all + warps[warp] : fmaxf(all, warps[warp]);
  return all;
}

extern "C" __global__ void __launch_bounds__(128)
    f(const float* q, const float* k, const float* v, float* y, int64_t S) {
  __shared__ float p[120];
  const int64_t keys = S < 120 ? S : 120, head = blockIdx.x / S * S * 16;
  const bool mine = threadIdx.x < keys;
  q += blockIdx.x * 16ll, y += blockIdx.x * 16ll;
  float score = 0;
  for (int64_t d = 0; mine && d < 16; ++d) score = fmaf(q[d], k[head + threadIdx.x * 16 + d], score);
  const float top = join(mine ? score * 0.25f : -kInfinity, false);
  const float weight = mine ? expf(score * 0.25f - top) : 0;
  if (mine) p[threadIdx.x] = weight;
  const float total = join(weight, true);
  if (threadIdx.x >= 16) return;
  float sum = 0;
  for (int64_t j = 0; j < keys; ++j) sum = fmaf(p[j], v[head + j * 16 + threadIdx.x], sum);
  y[threadIdx.x] = sum / total;
}
