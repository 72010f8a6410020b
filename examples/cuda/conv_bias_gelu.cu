/*lathe
[[scratch]]
name = "h"
bytes = "4 * batch * cout * height * width"

[[node]]
library = "cudnn"
nodes = ["h"]

[[launch]]
kernel = "bias_gelu"
grid = ["cdiv(height * width, 256)", "batch * cout"]
block = [256]
args = ["h", "b", "y", "cout", "height * width"]
*/
// A fused kernel after a library's convolution: cuDNN writes h; this kernel adds the bias of the
// channel and applies GELU in one pass. For conv_bias_gelu.toml.
#include <lathe/cuda.cuh>

inline float gelu_of(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

extern "C" __global__ void __launch_bounds__(256)
    bias_gelu(const float* __restrict__ h, const float* __restrict__ b, float* __restrict__ y, int channels,
              int plane) {
  const int at = blockIdx.x * 256 + threadIdx.x;
  if (at >= plane) return;
  const int64_t i = int64_t{blockIdx.y} * plane + at;
  y[i] = gelu_of(h[i] + b[blockIdx.y % channels]);
}
