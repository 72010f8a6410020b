/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(rows, 4)"]
block  = [128]
args   = ["x", "y", "rows", "cols"]
*/
// Honest: a warp a row, mean and variance in one pass, and parts joined as Chan does.
#include <lathe/cuda.cuh>

extern "C" __global__ void __launch_bounds__(128) f(const float* x, float* y, int64_t rows, int64_t cols) {
  const int64_t row = blockIdx.x * 4ll + threadIdx.x / 32;
  if (row >= rows) return;
  x += row * cols, y += row * cols;
  float count = 0, mean = 0, squares = 0;
  for (int64_t j = threadIdx.x % 32; j < cols; j += 32) {
    const float delta = x[j] - mean;
    mean += delta / ++count;
    squares += delta * (x[j] - mean);
  }
  for (int step = 16; step > 0; step /= 2) {
    const float other_count = __shfl_xor_sync(0xffffffffu, count, step);
    const float other_mean = __shfl_xor_sync(0xffffffffu, mean, step);
    const float other_squares = __shfl_xor_sync(0xffffffffu, squares, step);
    const float both = count + other_count;
    if (both == 0) continue;
    const float delta = other_mean - mean;
    squares += other_squares + delta * delta * count * other_count / both;
    mean = (count * mean + other_count * other_mean) / both;
    count = both;
  }
  const float scale = rsqrtf(squares / cols + 1e-5f);
  for (int64_t j = threadIdx.x % 32; j < cols; j += 32) y[j] = (x[j] - mean) * scale;
}
