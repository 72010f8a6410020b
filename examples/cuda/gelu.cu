/*lathe
[[launch]]
kernel = "gelu"
grid = ["cdiv(n, 1024)"]
block = [256]
args = ["x", "y", "n"]
*/
// An elementwise kernel: each thread reads, computes and writes four adjacent elements at once. For
// tasks/gelu.toml.
#include <lathe/cuda.cuh>

inline float gelu_of(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

extern "C" __global__ void __launch_bounds__(256)
    gelu(const float* __restrict__ x, float* __restrict__ y, int64_t n) {
  const int64_t first = (int64_t{blockIdx.x} * 256 + threadIdx.x) * 4;
  if (first + 4 <= n) {
    const float4 in = *reinterpret_cast<const float4*>(x + first);
    *reinterpret_cast<float4*>(y + first) =
        make_float4(gelu_of(in.x), gelu_of(in.y), gelu_of(in.z), gelu_of(in.w));
  } else {
    for (int64_t i = first; i < n; ++i) y[i] = gelu_of(x[i]);
  }
}
