#include <dlfcn.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "gemm/cuda/api.h"
#include "gemm/cuda/cuda_device.h"
#include "gemm/export.h"
#include "gemm/runtime/lathe_gemm.h"
#include "tests/backend/cuda/without_gpu.h"
#include "tests/gemm/gemm_compiler.h"

namespace lathe::gemm {
namespace {

constexpr int kThreads = 8, kStreams = 4, kCalls = 25;

/// An exported library of its own, of which nothing is linked here.
struct Exported {
  decltype(&::lathe_gemm_create) create;
  decltype(&::lathe_gemm_destroy) destroy;
  decltype(&::lathe_hgemm) hgemm;
  decltype(&::lathe_gemm_kernel) kernel;
  decltype(&::lathe_gemm_last_error) last_error;

  bool load(const std::string& path) {
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    create = reinterpret_cast<decltype(create)>(::dlsym(library, "lathe_gemm_create"));
    destroy = reinterpret_cast<decltype(destroy)>(::dlsym(library, "lathe_gemm_destroy"));
    hgemm = reinterpret_cast<decltype(hgemm)>(::dlsym(library, "lathe_hgemm"));
    kernel = reinterpret_cast<decltype(kernel)>(::dlsym(library, "lathe_gemm_kernel"));
    last_error = reinterpret_cast<decltype(last_error)>(::dlsym(library, "lathe_gemm_last_error"));
    return create && destroy && hgemm && kernel && last_error;
  }
};

/// A product of whole numbers, packed in TN, and what it must be.
struct Product {
  Size size;
  std::string kernel;
  DevicePointer a = 0, b = 0;
  std::vector<unsigned short> right = {};

  std::size_t result_bytes() const { return static_cast<std::size_t>(2 * size.m * size.n); }
};

/// fp16 bits of -2 to 2.
unsigned short half_of(std::uint64_t seed) {
  constexpr unsigned short kHalves[] = {0xc000, 0xbc00, 0x0000, 0x3c00, 0x4000};
  return kHalves[(seed * 0x9e3779b97f4a7c15u >> 40) % 5];
}

class ExportedLibrary : public testing::Test {
 protected:
  void SetUp() override {
    if (!compile_.works()) LATHE_WITHOUT_GPU("no NVRTC");
    auto device = open_cuda_device(0, compile_);  // makes the context current here
    if (!device.ok()) LATHE_WITHOUT_GPU(device.error().message);
    device_ = *std::move(device);
    driver_ = *measuring_driver();
    std::filesystem::create_directories(folder_);
    auto journal = Journal::open(folder_ + "/journal.jsonl");
    ASSERT_TRUE(journal.ok());
    for (const Product& one : products_)
      ASSERT_TRUE(journal->add(Choice{.size = one.size, .kernel = one.kernel}).ok());
    const Compile compile = [this](const std::string& source, Inspect) {
      return compile_(source, Inspect::kNo);
    };
    const auto report = export_library({*journal}, {compile, {}}, folder_ + "/package");
    ASSERT_TRUE(report.ok()) << report.error().to_string();
    ASSERT_TRUE(library_.load(folder_ + "/package/lib/liblathe_gemm.so")) << ::dlerror();
    ASSERT_EQ(library_.create(&handle_), LATHE_GEMM_OK) << library_.last_error();
    for (Product& one : products_) {
      ASSERT_STREQ(library_.kernel(LATHE_GEMM_TN, one.size.m, one.size.n, one.size.k, 0), one.kernel.c_str());
      one.a = filled(one.size.m * one.size.k, 1);
      one.b = filled(one.size.n * one.size.k, 2);
      const DevicePointer c = memory(one.result_bytes());
      ASSERT_EQ(call(one, c, nullptr), LATHE_GEMM_OK) << library_.last_error();
      one.right = result(one, c);
    }
  }
  void TearDown() override {
    if (handle_ != nullptr) library_.destroy(handle_);
    for (const DevicePointer at : allocated_) driver_->release(at);
    std::filesystem::remove_all(folder_);
  }

  DevicePointer memory(std::size_t bytes) {
    DevicePointer at = 0;
    EXPECT_EQ(driver_->allocate(&at, bytes), 0);
    allocated_.push_back(at);
    return at;
  }
  DevicePointer filled(std::int64_t count, std::uint64_t seed) {
    std::vector<unsigned short> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = half_of(i + seed * 1000003);
    const DevicePointer at = memory(2 * values.size());
    EXPECT_EQ(driver_->copy_to_device(at, values.data(), 2 * values.size()), 0);
    return at;
  }
  lathe_gemm_status call(const Product& one, DevicePointer c, Stream stream) {
    const auto [m, n, k] = one.size;
    const auto matrix = [](DevicePointer at) { return reinterpret_cast<void*>(at); };
    return library_.hgemm(handle_, LATHE_GEMM_TN, m, n, k, 1, matrix(one.a), k, matrix(one.b), k, 0,
                          matrix(c), n, LATHE_GEMM_FP32, stream);
  }
  std::vector<unsigned short> result(const Product& one, DevicePointer c) {
    std::vector<unsigned short> values(one.result_bytes() / 2);
    EXPECT_EQ(driver_->stream_synchronize(nullptr), 0);
    EXPECT_EQ(driver_->copy_to_host(values.data(), c, one.result_bytes()), 0);
    return values;
  }

  const GemmCompiler compile_{"sm_90a"};
  std::unique_ptr<Device> device_;
  const MeasuringDriver* driver_ = nullptr;
  Exported library_{};
  lathe_gemm_handle handle_ = nullptr;
  std::vector<DevicePointer> allocated_;
  const std::string folder_ = testing::TempDir() + "gemm_library_gpu_test" + std::to_string(::getpid());
  // One of one block a tile, two that share K in a cluster, two that gather through a workspace,
  // which every stream needs for itself, and a persistent one.
  std::vector<Product> products_ = {
      {{64, 256, 512}, "direct_tn_16x16x32_w1x1_g8_s2_c1_m1_n1_b1_o1_k2_vectors"},
      {{64, 64, 4096}, "direct_tn_16x32x32_w1x1_g4_s4_c8_m1_n1_b1_o1_k4_vectors"},
      {{128, 1024, 4096}, "wgmma_tn_64x32x128_w1x1_g2_s6_c2_m1_n1_b0_o1_k0_vectors"},
      {{256, 1024, 8192}, "wgmma_tn_128x64x64_w2x1_g1_s7_c4_m1_n1_b0_o1_k0_gathers_vectors"},
      {{128, 1024, 16384}, "wgmma_tn_128x64x128_w2x1_g1_s4_c8_m1_n1_b0_o1_k0_gathers_vectors"},
      {{2048, 2048, 512}, "wgmma_tn_64x256x64_w2x1_g1_s4_c1_m1_n1_b8_o1_k0_persistent_turns_vectors"}};
};

TEST_F(ExportedLibrary, ThreadsAndStreamsThatShareAHandleGetTheSameBits) {
  Context context = nullptr;
  ASSERT_EQ(driver()->context_current(&context), 0);
  struct Lane {
    Stream stream = nullptr;
    std::vector<DevicePointer> results;  ///< of each product
  };
  std::vector<Lane> lanes(kThreads * kStreams);
  for (Lane& lane : lanes) {
    ASSERT_EQ(driver_->stream_create(&lane.stream, 1), 0);
    for (const Product& one : products_) lane.results.push_back(memory(one.result_bytes()));
  }
  std::vector<std::thread> threads;
  std::vector<int> failed(kThreads);
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      failed[static_cast<std::size_t>(thread)] += driver_->context_make_current(context) != 0;
      for (int i = 0; i < kCalls; ++i)
        for (int stream = 0; stream < kStreams; ++stream)
          for (std::size_t at = 0; at < products_.size(); ++at) {
            const Lane& lane = lanes[static_cast<std::size_t>(thread * kStreams + stream)];
            // Another order in each lane, so that unlike kernels meet.
            const std::size_t which = (at + static_cast<std::size_t>(thread + stream + i)) % products_.size();
            failed[static_cast<std::size_t>(thread)] +=
                call(products_[which], lane.results[which], lane.stream) != LATHE_GEMM_OK;
          }
    });
  for (std::thread& one : threads) one.join();
  EXPECT_THAT(failed, testing::Each(0));
  for (const Lane& lane : lanes) {
    ASSERT_EQ(driver_->stream_synchronize(lane.stream), 0);
    for (std::size_t at = 0; at < products_.size(); ++at)
      EXPECT_TRUE(result(products_[at], lane.results[at]) == products_[at].right) << products_[at].kernel;
  }
}

TEST_F(ExportedLibrary, ACapturedGraphGetsTheSameBitsWhileItsStreamIsUsed) {
  Stream stream = nullptr;
  ASSERT_EQ(driver_->stream_create(&stream, 1), 0);
  std::vector<DevicePointer> results, others;
  for (const Product& one : products_)
    results.push_back(memory(one.result_bytes())), others.push_back(memory(one.result_bytes()));
  constexpr int kCaptureThisThread = 1;
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  ASSERT_EQ(driver_->capture_begin(stream, kCaptureThisThread), 0);
  for (std::size_t at = 0; at < products_.size(); ++at)
    EXPECT_EQ(call(products_[at], results[at], stream), LATHE_GEMM_OK) << library_.last_error();
  ASSERT_EQ(driver_->capture_end(stream, &graph), 0);
  ASSERT_EQ(driver_->graph_instantiate(&exec, graph, 0), 0);
  Stream beside = nullptr;
  ASSERT_EQ(driver_->stream_create(&beside, 1), 0);
  for (int i = 0; i < kCalls; ++i) {
    for (std::size_t at = 0; at < products_.size(); ++at)
      ASSERT_EQ(driver_->fill_halves(results[at], 0x7e5a, products_[at].result_bytes() / 2, stream), 0);
    ASSERT_EQ(driver_->graph_launch(exec, stream), 0);
    for (std::size_t at = 0; at < products_.size(); ++at)
      EXPECT_EQ(call(products_[at], others[at], beside), LATHE_GEMM_OK);
    ASSERT_EQ(driver_->stream_synchronize(stream), 0);
    ASSERT_EQ(driver_->stream_synchronize(beside), 0);
    for (std::size_t at = 0; at < products_.size(); ++at) {
      EXPECT_TRUE(result(products_[at], results[at]) == products_[at].right) << products_[at].kernel;
      EXPECT_TRUE(result(products_[at], others[at]) == products_[at].right) << products_[at].kernel;
    }
  }
  driver_->graph_exec_destroy(exec);
  driver_->graph_destroy(graph);
}

/// The bits that the others are compared with are those of the exact product.
TEST_F(ExportedLibrary, ItsProductsOfWholeNumbersAreExact) {
  const Product& one = products_[0];
  const auto value = [](unsigned short bits) {
    return bits == 0 ? 0 : (bits & 0x8000 ? -1 : 1) * ((bits & 0x7fff) == 0x4000 ? 2 : 1);
  };
  for (std::int64_t row = 0; row < one.size.m; row += 7)
    for (std::int64_t column = 0; column < one.size.n; column += 5) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < one.size.k; ++k)
        sum += value(half_of(static_cast<std::uint64_t>(row * one.size.k + k) + 1000003)) *
               value(half_of(static_cast<std::uint64_t>(column * one.size.k + k) + 2000006));
      _Float16 found;
      std::memcpy(&found, &one.right[static_cast<std::size_t>(row * one.size.n + column)], sizeof found);
      ASSERT_EQ(static_cast<double>(found), static_cast<double>(sum)) << row << ", " << column;
    }
}

}  // namespace
}  // namespace lathe::gemm
