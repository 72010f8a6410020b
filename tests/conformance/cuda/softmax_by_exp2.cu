/*lathe
[[launch]]
kernel = "f"
grid   = ["rows"]
block  = [256]
args   = ["x", "y", "cols"]
*/
// Honest: scales inputs and maximum by log2(e) before it subtracts them.
#include <lathe/cuda.cuh>

/// The same in all 256 threads: theirs, added or the largest.
inline float join(float mine, bool add) {
  __shared__ float warps[8];
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, mine, step);
    mine = add ? mine + other : fmaxf(mine, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  float all = warps[0];
  for (int warp = 1; warp < 8; ++warp) all = add ? all + warps[warp] : fmaxf(all, warps[warp]);
  return all;
}

extern "C" __global__ void __launch_bounds__(256) f(const float* x, float* y, int64_t cols) {
  x += blockIdx.x * cols, y += blockIdx.x * cols;
  constexpr float kLog2e = 1.44269504f;
  float top = -kInfinity, sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += 256) top = fmaxf(top, x[j]);
  top = __fmul_rn(join(top, false), kLog2e);
  for (int64_t j = threadIdx.x; j < cols; j += 256) sum += exp2f(__fmul_rn(x[j], kLog2e) - top);
  sum = join(sum, true);
  for (int64_t j = threadIdx.x; j < cols; j += 256) y[j] = exp2f(__fmul_rn(x[j], kLog2e) - top) / sum;
}
