// Times every tile and split of the catalogue's products against cuBLAS in fp32 (no TF32), with
// cold operands, and says how far both are from the product in fp64. One row a shape and contender.
//   nvcc -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -Idevice
//        bench/products/products.cu -o products -lcublas

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "lathe/cuda/tensor_gemm.cuh"

namespace {

#define CHECKED(call)                                               \
  do {                                                              \
    if (const auto code = (call); static_cast<int>(code) != 0) {    \
      std::printf("%s: error %d\n", #call, static_cast<int>(code)); \
      std::exit(1);                                                 \
    }                                                               \
  } while (false)

constexpr int64_t kFloats = 100 << 20;  // of a buffer
constexpr int64_t kColdBytes =
    160 << 20;  // calls before an operand is used again touch so much: 3 times the L2
constexpr int kRounds = 6;

struct Product {
  const float* a;
  const float* b;
  float* c;
  int64_t batch, m, n, k;
};

template <class Block, int kSplit>
__global__ void __launch_bounds__(Block::kThreads) multiply(Product p) {
  const auto place = Block::place(blockIdx.x / kSplit, p.m, p.n);
  const Block block{
      p.a + place.outer * p.m * p.k, p.b + place.outer * p.k * p.n, place.row, place.column, p.m, p.n, p.k};
  float* const c = p.c + place.outer * p.m * p.n;
  const int64_t n = p.n;
  block.run([&](int64_t row, int64_t column, float x) { c[row * n + column] = x; });
}

__global__ void multiply_fp64(Product p, double* c, double* magnitude) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at >= p.batch * p.m * p.n) return;
  const float* a = p.a + at / p.n * p.k;
  const float* b = p.b + at / (p.m * p.n) * p.k * p.n + at % p.n;
  c[at] = magnitude[at] = 0;
  for (int64_t i = 0; i < p.k; ++i) {
    const double term = double{a[i]} * double{b[i * p.n]};
    c[at] += term;
    magnitude[at] += fabs(term);
  }
}

/// Sums of 12 bytes of a hash: nearly normal, scale 1.
__global__ void fill(float* x, int64_t count, uint64_t seed) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at >= count) return;
  double sum = 0;
  for (int i = 0; i < 4; ++i) {
    uint64_t z = seed + (at * 4 + i) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    sum += static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53 - 0.5;
  }
  x[at] = static_cast<float>(sum * 1.7320508);
}

struct Contender {
  std::string name;
  std::function<void(const Product&, cudaStream_t)> launch;
  std::function<bool(const Product&)> suits = [](const Product&) { return true; };
};

template <int kRows, int kColumns, int kStages, int kWarpRows, int kWarpColumns, int kSlices, int kSplit>
void add(std::vector<Contender>& list) {
  using Block =
      lathe::TensorGemm<kRows, kColumns, 32, kStages, kWarpRows, kWarpColumns, kSlices, kSplit, false, false>;
  const auto kernel = multiply<Block, kSplit>;
  CHECKED(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Block::kBytes));
  const auto tiles = [](const Product& p) {
    return p.batch * ((p.m + kRows - 1) / kRows) * ((p.n + kColumns - 1) / kColumns);
  };
  char name[64];
  std::snprintf(name, sizeof name, "%dx%d_w%dx%d_l%d/k%d", kRows, kColumns, kWarpRows, kWarpColumns, kSlices,
                kSplit);
  list.push_back({name,
                  [=](const Product& p, cudaStream_t stream) {
                    cudaLaunchAttribute cluster{cudaLaunchAttributeClusterDimension, {}, {}};
                    cluster.val.clusterDim = {kSplit, 1, 1};
                    cudaLaunchConfig_t config{};
                    config.gridDim = dim3(static_cast<unsigned>(tiles(p) * kSplit));
                    config.blockDim = dim3(Block::kThreads);
                    config.dynamicSmemBytes = Block::kBytes;
                    config.stream = stream;
                    config.attrs = &cluster;
                    config.numAttrs = kSplit > 1 ? 1 : 0;
                    CHECKED(cudaLaunchKernelEx(&config, kernel, p));
                  },
                  [=](const Product& p) {
                    const bool large = 2e-9 * static_cast<double>(p.batch * p.m * p.n * p.k) > 10;
                    return (!large || kRows * kColumns >= 4096) &&
                           (kSplit == 1 || (tiles(p) * kSplit <= 2000 && p.k / 32 >= kSplit));
                  }});
}
template <int... kShape>
void add_splits(std::vector<Contender>& list) {
  add<kShape..., 1>(list);
  add<kShape..., 2>(list);
  add<kShape..., 4>(list);
  add<kShape..., 8>(list);
}

class Bench {
 public:
  Bench() {
    for (float** buffer : {&a_, &b_, &c_}) CHECKED(cudaMalloc(buffer, kFloats * 4));
    for (double** buffer : {&exact_, &magnitude_}) CHECKED(cudaMalloc(buffer, kFloats * 8));
    CHECKED(cudaStreamCreate(&stream_));
    for (cudaEvent_t* event : {&begin_, &end_}) CHECKED(cudaEventCreate(event));
    for (float* buffer : {a_, b_})
      fill<<<kFloats / 256, 256, 0, stream_>>>(buffer, kFloats, buffer == a_ ? 1 : 1ull << 60);
    CHECKED(cudaStreamSynchronize(stream_));
  }

  /// Graphs of calls with operands of their own, all contenders in turn, round after round.
  void run(const std::vector<Contender>& contenders, Product p) {
    const auto step = [](int64_t count) { return (count + 63) / 64 * 64; };
    const int64_t a = step(p.batch * p.m * p.k), b = step(p.batch * p.k * p.n), c = step(p.batch * p.m * p.n);
    const int64_t room = kFloats / std::max({a, b, c}),
                  wanted = std::max<int64_t>(2, kColdBytes / (4 * (a + b + c)) + 1);
    const auto calls = static_cast<int>(std::min<int64_t>({room, wanted, 100}));
    struct Graph {
      const Contender* of;
      cudaGraphExec_t graph;
      double largest;
      std::vector<float> us;
    };
    std::vector<Graph> graphs;
    for (const Contender& contender : contenders) {
      if (!contender.suits(p)) continue;
      p.a = a_, p.b = b_, p.c = c_;
      const double largest = error_of(contender, p);
      cudaGraph_t graph;
      cudaGraphExec_t executable;
      CHECKED(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
      for (int i = 0; i < calls; ++i) {
        p.a = a_ + i * a, p.b = b_ + i * b, p.c = c_ + i * c;
        contender.launch(p, stream_);
      }
      CHECKED(cudaStreamEndCapture(stream_, &graph));
      CHECKED(cudaGraphInstantiate(&executable, graph, 0));
      CHECKED(cudaGraphDestroy(graph));
      graphs.push_back({&contender, executable, largest, {}});
    }
    for (int round = 0; round < kRounds; ++round)
      for (Graph& graph : graphs) {
        CHECKED(cudaEventRecord(begin_, stream_));
        CHECKED(cudaGraphLaunch(graph.graph, stream_));
        CHECKED(cudaEventRecord(end_, stream_));
        CHECKED(cudaStreamSynchronize(stream_));
        float ms = 0;
        CHECKED(cudaEventElapsedTime(&ms, begin_, end_));
        if (round > 0) graph.us.push_back(ms * 1000 / static_cast<float>(calls));
      }
    for (Graph& graph : graphs) {
      std::sort(graph.us.begin(), graph.us.end());
      std::printf("%ld %ld %ld %ld %s %.3f us, error %.2f\n", p.batch, p.m, p.n, p.k, graph.of->name.c_str(),
                  graph.us[graph.us.size() / 2], graph.largest);
      CHECKED(cudaGraphExecDestroy(graph.graph));
    }
  }

  cudaStream_t stream() const { return stream_; }

 private:
  /// The largest error over 2^-24 of the terms' magnitudes.
  double error_of(const Contender& contender, const Product& p) {
    const int64_t count = p.batch * p.m * p.n;
    if (static_cast<double>(count) * static_cast<double>(p.k) > 2e9) return NAN;
    multiply_fp64<<<(count + 255) / 256, 256, 0, stream_>>>(p, exact_, magnitude_);
    CHECKED(cudaMemsetAsync(c_, 0xff, count * 4, stream_));
    contender.launch(p, stream_);
    std::vector<double> exact(count), magnitude(count);
    std::vector<float> got(count);
    CHECKED(cudaStreamSynchronize(stream_));
    CHECKED(cudaMemcpy(exact.data(), exact_, count * 8, cudaMemcpyDefault));
    CHECKED(cudaMemcpy(magnitude.data(), magnitude_, count * 8, cudaMemcpyDefault));
    CHECKED(cudaMemcpy(got.data(), c_, count * 4, cudaMemcpyDefault));
    double largest = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double error = std::fabs(got[i] - exact[i]) / (magnitude[i] * 0x1p-24);
      largest = error <= largest ? largest : error;  // a NaN stays
    }
    return largest;
  }

  float *a_, *b_, *c_;
  double *exact_, *magnitude_;
  cudaStream_t stream_;
  cudaEvent_t begin_, end_;
};

constexpr int64_t kShapes[][4] = {
    {1, 128, 64, 128},    {1, 128, 128, 128},    {1, 256, 64, 64},      {1, 256, 256, 64},
    {1, 256, 64, 256},    {1, 256, 256, 256},    {1, 384, 384, 384},    {1, 512, 512, 512},
    {1, 768, 768, 768},   {1, 1024, 1024, 1024}, {1, 2048, 2048, 2048}, {1, 4096, 4096, 4096},
    {1, 4096, 4096, 256}, {1, 512, 512, 4096},   {1, 8192, 16, 128},    {1, 16384, 1, 256},
    {16, 128, 128, 64},   {64, 32, 32, 32},      {8, 128, 128, 128},    {1, 64, 768, 384},
    {1, 128, 768, 192},   {1, 128, 192, 768},    {1, 16, 1024, 256},    {1, 16, 256, 1024},
    {1, 64, 704, 256},    {1, 64, 256, 704},     {1, 4, 1408, 512},     {1, 4, 512, 1408},
    {1, 32, 512, 64},     {1, 32, 64, 512},      {1, 300, 300, 300},    {1, 255, 257, 511}};

}  // namespace

int main() {
  Bench bench;
  cublasHandle_t cublas;
  void* workspace;
  CHECKED(cublasCreate(&cublas));
  CHECKED(cublasSetStream(cublas, bench.stream()));
  CHECKED(cudaMalloc(&workspace, 64 << 20));
  CHECKED(cublasSetWorkspace(cublas, workspace, 64 << 20));
  std::vector<Contender> contenders;
  contenders.push_back({"cublas", [&](const Product& p, cudaStream_t) {
                          const float one = 1, zero = 0;
                          const int m = static_cast<int>(p.m), n = static_cast<int>(p.n),
                                    k = static_cast<int>(p.k);
                          CHECKED(cublasSgemmStridedBatched(cublas, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one,
                                                            p.b, n, p.k * p.n, p.a, k, p.m * p.k, &zero, p.c,
                                                            n, p.m * p.n, static_cast<int>(p.batch)));
                        }});
  add_splits<64, 64, 3, 32, 32, 1>(contenders);
  add_splits<64, 64, 4, 32, 16, 1>(contenders);
  add_splits<32, 64, 4, 32, 16, 1>(contenders);
  add_splits<32, 32, 4, 16, 16, 1>(contenders);
  add_splits<32, 32, 4, 16, 16, 2>(contenders);
  add_splits<16, 64, 4, 16, 16, 1>(contenders);
  add_splits<16, 32, 4, 16, 8, 2>(contenders);
  add_splits<64, 16, 4, 16, 16, 1>(contenders);
  add_splits<64, 8, 4, 16, 8, 1>(contenders);
  for (const auto& s : kShapes) bench.run(contenders, {nullptr, nullptr, nullptr, s[0], s[1], s[2], s[3]});
}
