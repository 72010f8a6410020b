/*lathe
[[launch]]
kernel = "f"
grid   = ["cdiv(W - 2, 4)", "cdiv(H - 2, 4)", "O"]
block  = [32]
args   = ["x", "w", "y", "C", "H", "W"]
*/
// Honest: Winograd's F(4x4, 3x3), which is less exact than a sum of products.
#include <lathe/cuda.cuh>

__constant__ float B[6][6] = {{4, 0, -5, 0, 1, 0},  {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
                              {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}};
__constant__ float G[6][3] = {{1 / 4.f, 0, 0},
                              {-1 / 6.f, -1 / 6.f, -1 / 6.f},
                              {-1 / 6.f, 1 / 6.f, -1 / 6.f},
                              {1 / 24.f, 1 / 12.f, 1 / 6.f},
                              {1 / 24.f, -1 / 12.f, 1 / 6.f},
                              {0, 0, 1}};
__constant__ float A[4][6] = {
    {1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}};

/// to = L from L^T, with from of Q x Q and to of P x P values.
template <int P, int Q>
inline void transform(const float (&l)[P][Q], const float (&from)[Q][Q], float (&to)[P][P]) {
  float half[P][Q];
  for (int i = 0; i < P; ++i)
    for (int j = 0; j < Q; ++j) {
      half[i][j] = 0;
      for (int k = 0; k < Q; ++k) half[i][j] += l[i][k] * from[k][j];
    }
  for (int i = 0; i < P; ++i)
    for (int j = 0; j < P; ++j) {
      to[i][j] = 0;
      for (int k = 0; k < Q; ++k) to[i][j] += half[i][k] * l[j][k];
    }
}

/// A warp a tile; its lanes have channels of their own.
extern "C" __global__ void __launch_bounds__(32)
    f(const float* x, const float* w, float* y, int64_t C, int64_t H, int64_t W) {
  const int64_t i = blockIdx.y * 4ll, j = blockIdx.x * 4ll, o = blockIdx.z;
  float sums[6][6] = {}, tile[6][6], kernel[3][3], t[6][6], u[6][6], out[4][4];
  for (int64_t c = threadIdx.x; c < C; c += 32) {
    for (int a = 0; a < 6; ++a)
      for (int b = 0; b < 6; ++b) tile[a][b] = i + a < H && j + b < W ? x[(c * H + i + a) * W + j + b] : 0;
    for (int k = 0; k < 9; ++k) kernel[k / 3][k % 3] = w[(o * C + c) * 9 + k];
    transform(B, tile, t);
    transform(G, kernel, u);
    for (int a = 0; a < 6; ++a)
      for (int b = 0; b < 6; ++b) sums[a][b] += t[a][b] * u[a][b];
  }
  for (int a = 0; a < 6; ++a)
    for (int b = 0; b < 6; ++b)
      for (int step = 16; step > 0; step /= 2) sums[a][b] += __shfl_xor_sync(0xffffffffu, sums[a][b], step);
  transform(A, sums, out);
  for (int a = 0; a < 4 && threadIdx.x == 0; ++a)
    for (int b = 0; b < 4; ++b)
      if (i + a < H - 2 && j + b < W - 2) y[(o * (H - 2) + i + a) * (W - 2) + j + b] = out[a][b];
}
