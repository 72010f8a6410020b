/*lathe
[[launch]]
kernel = "read_all"
grid = ["sm_count * 8"]
block = [512]
args = ["x", "y", "n"]
*/
// The bandwidth that every share in compare.py refers to: reads of 16 bytes, four under way in each
// thread.
extern "C" __global__ void __launch_bounds__(512) read_all(const float4* __restrict__ x, float* y, long long n) {
  const long long step = (long long)gridDim.x * blockDim.x, count = n / 4;
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  float sum = 0;
  for (; i + 3 * step < count; i += 4 * step) {
    float4 part[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) part[u] = __ldcs(x + i + u * step);
#pragma unroll
    for (int u = 0; u < 4; ++u) sum += part[u].x + part[u].y + part[u].z + part[u].w;
  }
  if (sum == 12345.0f) *y = sum;
}
