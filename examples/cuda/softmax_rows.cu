/*lathe
[[launch]]
kernel = "softmax"
grid = ["rows"]
block = [256]
smem = "4 * cols"
args = ["x", "y", "cols"]
*/
// Softmax with one block per row. The row is kept in shared memory, so that device memory is read
// once. For tasks/softmax_rows.toml.
#include <lathe/cuda.cuh>

extern __shared__ float row[];

/// Combines `mine` of all 256 threads; every thread gets the result.
template <class Join>
inline float join_block(float mine, Join join) {
  __shared__ float warps[8];
  for (int step = 16; step > 0; step /= 2) mine = join(mine, __shfl_xor_sync(0xffffffffu, mine, step));
  __syncthreads();  // all threads have read the results of an earlier call
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  float all = warps[0];
  for (int warp = 1; warp < 8; ++warp) all = join(all, warps[warp]);
  return all;
}

extern "C" __global__ void __launch_bounds__(256)
    softmax(const float* __restrict__ x, float* __restrict__ y, int64_t cols) {
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;
  float largest = -kInfinity;
  for (int64_t j = threadIdx.x; j < cols; j += 256) {
    row[j] = x[j];
    largest = fmaxf(largest, row[j]);
  }
  largest = join_block(largest, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += 256) {
    row[j] = expf(row[j] - largest);
    sum += row[j];
  }
  sum = join_block(sum, [](float a, float b) { return a + b; });
  for (int64_t j = threadIdx.x; j < cols; j += 256) y[j] = row[j] / sum;
}
