// Times every tile and split of the catalogue's products against cuBLAS, with cold operands, and
// says how far both are from the product in fp64: in fp32 (no TF32), with "bf16" as argument in
// that. One row a shape and contender.
//   nvcc -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -Idevice
//        bench/products/products.cu -o products -lcublas

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "lathe/cuda/gemm_fused.cuh"
#include "lathe/cuda/gemm_wgmma.cuh"
#include "lathe/cuda/tensor_gemm.cuh"

namespace {

#define CHECKED(call)                                               \
  do {                                                              \
    if (const auto code = (call); static_cast<int>(code) != 0) {    \
      std::printf("%s: error %d\n", #call, static_cast<int>(code)); \
      std::exit(1);                                                 \
    }                                                               \
  } while (false)

constexpr int64_t kElements = 100 << 20;  // of a buffer
constexpr int64_t kColdBytes =
    160 << 20;  // calls before an operand is used again touch so much: 3 times the L2
constexpr int kRounds = 6;

template <class T>
struct Product {
  const T* a;
  const T* b;
  T* c;
  int64_t batch, m, n, k;
};

template <class Block, int kSplit, class T>
__global__ void __launch_bounds__(Block::kThreads) multiply(Product<T> p) {
  const auto place = Block::place(blockIdx.x / kSplit, p.m, p.n);
  const Block block{
      p.a + place.outer * p.m * p.k, p.b + place.outer * p.k * p.n, place.row, place.column, p.m, p.n, p.k};
  T* const c = p.c + place.outer * p.m * p.n;
  const int64_t n = p.n;
  block.run([&](int64_t row, int64_t column, float x) { c[row * n + column] = x; });
}

template <class T>
__global__ void multiply_fp64(Product<T> p, double* c, double* magnitude) {
  const int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (at >= p.batch * p.m * p.n) return;
  const T* a = p.a + at / p.n * p.k;
  const T* b = p.b + at / (p.m * p.n) * p.k * p.n + at % p.n;
  c[at] = magnitude[at] = 0;
  for (int64_t i = 0; i < p.k; ++i) {
    const double term = double{float(a[i])} * double{float(b[i * p.n])};
    c[at] += term;
    magnitude[at] += fabs(term);
  }
}

/// Sums of 12 bytes of a hash: nearly normal, scale 1.
template <class T>
__global__ void fill(T* x, int64_t count, uint64_t seed) {
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

float value_of(float x) { return x; }
float value_of(lathe::bfloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

template <class T>
struct Contender {
  std::string name;
  std::function<void(const Product<T>&, cudaStream_t)> launch;
  std::function<bool(const Product<T>&)> suits = [](const Product<T>&) { return true; };
};

struct Launch {
  int64_t blocks;
  int threads, bytes, cluster;
};
template <class Kernel, class... Arguments>
void launch(const Launch& what, cudaStream_t stream, Kernel kernel, const Arguments&... arguments) {
  cudaLaunchAttribute cluster{cudaLaunchAttributeClusterDimension, {}, {}};
  cluster.val.clusterDim = {static_cast<unsigned>(what.cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(what.blocks));
  config.blockDim = dim3(what.threads);
  config.dynamicSmemBytes = what.bytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = what.cluster > 1 ? 1 : 0;
  CHECKED(cudaLaunchKernelEx(&config, kernel, arguments...));
}

template <class T, int... kShape>
struct BlockOf {
  using Type = lathe::FusedGemm<T, kShape..., false, false>;
};
template <int... kShape>
struct BlockOf<float, kShape...> {
  using Type = lathe::TensorGemm<kShape..., false, false>;
};

template <class T, int kRows, int kColumns, int kDepth, int kStages, int kWarpRows, int kWarpColumns, int kSlices,
          int kSplit>
void add(std::vector<Contender<T>>& list) {
  using Block =
      typename BlockOf<T, kRows, kColumns, kDepth, kStages, kWarpRows, kWarpColumns, kSlices, kSplit>::Type;
  const auto kernel = multiply<Block, kSplit, T>;
  CHECKED(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Block::kBytes));
  const auto tiles = [](const Product<T>& p) {
    return p.batch * ((p.m + kRows - 1) / kRows) * ((p.n + kColumns - 1) / kColumns);
  };
  char name[64];
  std::snprintf(name, sizeof name, "%dx%dx%d_w%dx%d_l%d/k%d", kRows, kColumns, kDepth, kWarpRows, kWarpColumns,
                kSlices, kSplit);
  list.push_back({name,
                  [=](const Product<T>& p, cudaStream_t stream) {
                    launch({tiles(p) * kSplit, Block::kThreads, Block::kBytes, kSplit}, stream, kernel, p);
                  },
                  [=](const Product<T>& p) {
                    const bool large = 2e-9 * static_cast<double>(p.batch * p.m * p.n * p.k) > 10;
                    return (!large || kRows * kColumns >= 4096) &&
                           (kSplit == 1 || (tiles(p) * kSplit <= 2000 && p.k / kDepth >= kSplit));
                  }});
}
template <class T, int... kShape>
void add_splits(std::vector<Contender<T>>& list) {
  add<T, kShape..., 1>(list);
  add<T, kShape..., 2>(list);
  add<T, kShape..., 4>(list);
  add<T, kShape..., 8>(list);
}

constexpr lathe::WgmmaKnobs kWarpgroups[] = {
    {.consumers = 2, .columns = 256, .share_b = 2, .persistent = true, .row_store = true},
    {.consumers = 2, .columns = 256, .persistent = true, .row_store = true},
    {.consumers = 2, .tall = 2, .columns = 128, .persistent = true, .in_turn = true, .row_store = true},
    {.consumers = 2, .columns = 256, .persistent = true, .in_turn = true, .row_store = true},
    {.consumers = 2, .columns = 128, .stages = 5, .row_store = true},
    {.consumers = 1, .columns = 128, .stages = 3, .blocks = 2, .row_store = true},
    {.consumers = 1, .columns = 64, .stages = 5, .blocks = 2, .row_store = true},
    {.consumers = 1, .columns = 128, .stages = 3, .split = 2, .blocks = 2, .row_store = true},
    {.consumers = 1, .columns = 128, .stages = 3, .split = 4, .blocks = 2, .row_store = true},
    {.consumers = 1, .columns = 64, .stages = 5, .split = 2, .blocks = 2, .row_store = true},
    {.consumers = 1, .columns = 64, .stages = 5, .split = 4, .blocks = 2, .row_store = true},
    {.consumers = 1, .columns = 64, .stages = 5, .split = 8, .blocks = 2, .row_store = true},
};
constexpr int threads_of(const lathe::WgmmaKnobs& knobs) {
  return knobs.consumers * 128 + (knobs.consumers > 1 ? 128 : 32);
}

template <std::size_t kKnobs, class T>
__global__ void __launch_bounds__(threads_of(kWarpgroups[kKnobs]), kWarpgroups[kKnobs].blocks)
    multiply_by_warpgroups(Product<T> p, const __grid_constant__ lathe::TensorMap a,
                           const __grid_constant__ lathe::TensorMap b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const auto put = [&](int64_t row, int64_t column, float x) { p.c[row * p.n + column] = x; };
  const lathe::GemmCall call = lathe::call_of_sizes(p.m, p.n, p.k);
  lathe::WgmmaGemm<T, lathe::kAlongK, lathe::kAlongMN, kWarpgroups[kKnobs]>::run(call, a, b, a,
                                                                    lathe::EachElement<decltype(put)>{put, call.m, call.n});
#endif
}

/// Of a matrix of bf16, in boxes of 64 columns.
lathe::TensorMap map_of(const void* base, int64_t rows, int64_t columns, int box_rows) {
  static const auto encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    CHECKED(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result));
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  }();
  CUtensorMap map;
  const cuuint64_t dims[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(2 * columns)};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(box_rows)}, steps[] = {1, 1};
  CHECKED(encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(base), dims, strides, box, steps,
                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  lathe::TensorMap result;
  static_assert(sizeof result == sizeof map);
  std::memcpy(&result, &map, sizeof map);
  return result;
}

template <std::size_t kKnobs, class T>
void add_warpgroups(std::vector<Contender<T>>& list) {
  constexpr lathe::WgmmaKnobs knobs = kWarpgroups[kKnobs];
  constexpr int kRows = 64 * knobs.tall * (knobs.in_turn ? 1 : knobs.consumers);
  constexpr int kCluster = knobs.share_a * knobs.share_b * knobs.split;
  const auto kernel = multiply_by_warpgroups<kKnobs, T>;
  const int units = knobs.tall * knobs.columns / 8 * 4 * knobs.consumers / knobs.split;
  const int result = knobs.split > 1 ? 16 : 4 * 4 * knobs.consumers * 16 * 68;
  const int bytes = knobs.stages * 128 * (kRows + knobs.columns) * knobs.depth / 64 + result +
                    (knobs.split > 1 ? units * knobs.split * 512 : 16) + 16 * knobs.stages + 64;
  CHECKED(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const auto groups = [=](const Product<T>& p) {
    const auto up = [](int64_t extent, int64_t step) { return (extent + step - 1) / step; };
    return up(p.m, kRows * knobs.share_b) * up(p.n, knobs.columns * knobs.share_a) * knobs.split;
  };
  char name[64];
  std::snprintf(name, sizeof name, "wg_%dx%dx%d_s%d%s%s%s/k%d", kRows, knobs.columns, knobs.depth, knobs.stages,
                knobs.share_b > 1 ? "_pairs" : "", knobs.in_turn ? "_turns" : "", knobs.persistent ? "_stay" : "", knobs.split);
  list.push_back(
      {name,
       [=](const Product<T>& p, cudaStream_t stream) {
         const int64_t share = kCluster / knobs.split, most = knobs.persistent ? 132 * knobs.blocks / share : 1 << 30;
         launch({std::min(groups(p), most) * share, threads_of(knobs), bytes, kCluster}, stream, kernel, p,
                map_of(p.a, p.m, p.k, kRows / knobs.share_a), map_of(p.b, p.k, p.n, 64));
       },
       [=](const Product<T>& p) {
         return p.batch == 1 && p.k % 8 == 0 && p.n % 8 == 0 &&
                (knobs.split == 1 || (groups(p) <= 2000 && p.k / knobs.depth >= knobs.split));
       }});
}

template <class T, std::size_t... kKnobs>
void add_all_warpgroups(std::vector<Contender<T>>& list, std::index_sequence<kKnobs...>) {
  (add_warpgroups<kKnobs>(list), ...);
}

template <class T>
class Bench {
 public:
  Bench() {
    for (T** buffer : {&a_, &b_, &c_}) CHECKED(cudaMalloc(buffer, kElements * sizeof(T)));
    for (double** buffer : {&exact_, &magnitude_}) CHECKED(cudaMalloc(buffer, kElements * 8));
    CHECKED(cudaStreamCreate(&stream_));
    for (cudaEvent_t* event : {&begin_, &end_}) CHECKED(cudaEventCreate(event));
    for (T* buffer : {a_, b_})
      fill<<<kElements / 256, 256, 0, stream_>>>(buffer, kElements, buffer == a_ ? 1 : 1ull << 60);
    CHECKED(cudaStreamSynchronize(stream_));
  }

  /// Graphs of calls with operands of their own, all contenders in turn, round after round.
  void run(const std::vector<Contender<T>>& contenders, Product<T> p) {
    const auto step = [](int64_t count) { return (count + 63) / 64 * 64; };
    const int64_t a = step(p.batch * p.m * p.k), b = step(p.batch * p.k * p.n), c = step(p.batch * p.m * p.n);
    const int64_t room = kElements / std::max({a, b, c}),
                  wanted = std::max<int64_t>(2, kColdBytes / (static_cast<int64_t>(sizeof(T)) * (a + b + c)) + 1);
    const auto calls = static_cast<int>(std::min<int64_t>({room, wanted, 100}));
    struct Graph {
      const Contender<T>* of;
      cudaGraphExec_t graph;
      double largest;
      std::vector<float> us;
    };
    std::vector<Graph> graphs;
    for (const Contender<T>& contender : contenders) {
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
  double error_of(const Contender<T>& contender, const Product<T>& p) {
    const int64_t count = p.batch * p.m * p.n;
    if (static_cast<double>(count) * static_cast<double>(p.k) > 2e9) return NAN;
    multiply_fp64<<<(count + 255) / 256, 256, 0, stream_>>>(p, exact_, magnitude_);
    CHECKED(cudaMemsetAsync(c_, 0xff, count * sizeof(T), stream_));
    contender.launch(p, stream_);
    std::vector<double> exact(count), magnitude(count);
    std::vector<T> got(count);
    CHECKED(cudaStreamSynchronize(stream_));
    CHECKED(cudaMemcpy(exact.data(), exact_, count * 8, cudaMemcpyDefault));
    CHECKED(cudaMemcpy(magnitude.data(), magnitude_, count * 8, cudaMemcpyDefault));
    CHECKED(cudaMemcpy(got.data(), c_, count * sizeof(T), cudaMemcpyDefault));
    double largest = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double error = std::fabs(value_of(got[i]) - exact[i]) / (magnitude[i] * 0x1p-24);
      largest = error <= largest ? largest : error;  // a NaN stays
    }
    return largest;
  }

  T *a_, *b_, *c_;
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

template <class T>
void run(const std::function<void(std::vector<Contender<T>>&)>& add_tiles) {
  Bench<T> bench;
  cublasHandle_t cublas;
  void* workspace;
  CHECKED(cublasCreate(&cublas));
  CHECKED(cublasSetStream(cublas, bench.stream()));
  CHECKED(cudaMalloc(&workspace, 64 << 20));
  CHECKED(cublasSetWorkspace(cublas, workspace, 64 << 20));
  const cudaDataType type = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;
  std::vector<Contender<T>> contenders;
  contenders.push_back(
      {"cublas", [&](const Product<T>& p, cudaStream_t) {
         const float one = 1, zero = 0;
         const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
         CHECKED(cublasGemmStridedBatchedEx(cublas, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, p.b, type, n,
                                            p.k * p.n, p.a, type, k, p.m * p.k, &zero, p.c, type, n, p.m * p.n,
                                            static_cast<int>(p.batch), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
       }});
  add_tiles(contenders);
  for (const auto& s : kShapes) bench.run(contenders, {nullptr, nullptr, nullptr, s[0], s[1], s[2], s[3]});
}

}  // namespace

int main(int arguments, char** argument) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (arguments > 1 && std::string(argument[1]) == "bf16") {
    run<lathe::bfloat16>([](auto& list) {
      using T = lathe::bfloat16;
      add_splits<T, 128, 256, 32, 4, 64, 64, 1>(list);
      add_splits<T, 128, 128, 64, 3, 64, 32, 1>(list);
      add_splits<T, 128, 128, 32, 4, 64, 32, 1>(list);
      add_splits<T, 64, 128, 64, 4, 32, 32, 1>(list);
      add_splits<T, 64, 64, 64, 4, 32, 32, 1>(list);
      add_splits<T, 32, 64, 64, 4, 16, 16, 1>(list);
      add_splits<T, 32, 32, 64, 3, 16, 16, 2>(list);
      add_splits<T, 16, 64, 64, 4, 16, 16, 2>(list);
      add_splits<T, 64, 16, 64, 4, 16, 16, 1>(list);
      add_all_warpgroups(list, std::make_index_sequence<std::size(kWarpgroups)>());
    });
  } else {
    run<float>([](auto& list) {
      add_splits<float, 64, 64, 32, 3, 32, 32, 1>(list);
      add_splits<float, 64, 64, 32, 4, 32, 16, 1>(list);
      add_splits<float, 32, 64, 32, 4, 32, 16, 1>(list);
      add_splits<float, 32, 32, 32, 4, 16, 16, 1>(list);
      add_splits<float, 32, 32, 32, 4, 16, 16, 2>(list);
      add_splits<float, 16, 64, 32, 4, 16, 16, 1>(list);
      add_splits<float, 16, 32, 32, 4, 16, 8, 2>(list);
      add_splits<float, 64, 16, 32, 4, 16, 16, 1>(list);
      add_splits<float, 64, 8, 32, 4, 16, 8, 1>(list);
    });
  }
}
