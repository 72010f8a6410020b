// What calls of the library ask of the driver.

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <thread>

#include "gemm/runtime/lathe_gemm.h"
#include "tests/gemm/fake_cuda.h"

namespace lathe::gemm {
namespace {

using testing::HasSubstr;

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

struct Product {
  std::int64_t m = 64, n = 64, k = 64;
  float alpha = 1, beta = 0;
  std::uintptr_t a = 0x10000, b = 0x20000, c = 0x30000;
};
constexpr Product kShort = {};
constexpr Product kLarge = {.m = 8192, .n = 8192, .k = 4096, .alpha = 2, .beta = 3};
/// Its kernel shares K through a workspace, if there is one.
constexpr Product kGathers = {.m = 128, .n = 1024, .k = 16384};

class GemmCalls : public testing::Test {
 protected:
  void SetUp() override {
    // The library finds the driver by its name, which is loaded already.
    void* const library = ::dlopen(LATHE_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    cuda_ = reinterpret_cast<decltype(&lathe_fake_cuda)>(::dlsym(library, "lathe_fake_cuda"))();
    *cuda_ = {};
    ASSERT_EQ(lathe_gemm_create(&handle_), LATHE_GEMM_OK) << lathe_gemm_last_error();
  }
  void TearDown() override { lathe_gemm_destroy(handle_); }

  lathe_gemm_status call(const Product& p, std::uintptr_t stream) {
    return lathe_hgemm(handle_, LATHE_GEMM_TN, p.m, p.n, p.k, p.alpha, at(p.a), p.k, at(p.b), p.k, p.beta,
                       at(p.c), p.n, LATHE_GEMM_FP32, at(stream));
  }
  lathe_gemm_product prepare(const Product& p) {
    lathe_gemm_product product = nullptr;
    EXPECT_EQ(lathe_hgemm_prepare(handle_, LATHE_GEMM_TN, p.m, p.n, p.k, p.alpha, at(p.a), p.k, at(p.b), p.k,
                                  p.beta, at(p.c), p.n, LATHE_GEMM_FP32, &product),
              LATHE_GEMM_OK)
        << lathe_gemm_last_error();
    return product;
  }
  /// The one launch since the last look.
  FakeLaunch launched() {
    EXPECT_EQ(cuda_->launches.size(), 1U);
    const FakeLaunch one = cuda_->launches.empty() ? FakeLaunch{} : cuda_->launches.back();
    cuda_->launches.clear();
    return one;
  }
  static void expect_same(const FakeLaunch& x, const FakeLaunch& y) {
    EXPECT_EQ(x.function, y.function);
    EXPECT_EQ(x.config.stream, y.config.stream);
    EXPECT_EQ(x.config.attribute_count, y.config.attribute_count);
    EXPECT_EQ(x.config.shared_bytes, y.config.shared_bytes);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(x.config.grid[i], y.config.grid[i]);
      EXPECT_EQ(x.config.block[i], y.config.block[i]);
    }
    EXPECT_TRUE(x.call == y.call);
    EXPECT_EQ(x.first_map_word, y.first_map_word);
  }

  FakeCuda* cuda_ = nullptr;
  lathe_gemm_handle handle_ = nullptr;
};

TEST_F(GemmCalls, APreparedProductLaunchesWhatACallDoes) {
  for (const Product& product : {kShort, kLarge, kGathers}) {
    ASSERT_EQ(call(product, 0x5), LATHE_GEMM_OK) << lathe_gemm_last_error();
    const FakeLaunch called = launched();
    const lathe_gemm_product prepared = prepare(product);
    EXPECT_TRUE(cuda_->launches.empty()) << "preparing launches nothing";
    ASSERT_EQ(lathe_gemm_run(prepared, at(0x5)), LATHE_GEMM_OK);
    expect_same(called, launched());
    lathe_gemm_product_destroy(prepared);
  }
}

TEST_F(GemmCalls, ARunEncodesAndLoadsNothing) {
  const lathe_gemm_product prepared = prepare(kLarge);
  const int encoded = cuda_->encoded, loaded = cuda_->loaded;
  EXPECT_GT(encoded, 0);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(lathe_gemm_run(prepared, nullptr), LATHE_GEMM_OK);
  EXPECT_EQ(cuda_->launches.size(), 3U);
  EXPECT_EQ(cuda_->encoded, encoded);
  EXPECT_EQ(cuda_->loaded, loaded);
  lathe_gemm_product_destroy(prepared);
}

TEST_F(GemmCalls, EachStreamHasAWorkspaceOfItsOwn) {
  const lathe_gemm_product prepared = prepare(kGathers);
  DevicePointer first = 0;
  for (const std::uintptr_t stream : {0x5, 0x6, 0x5}) {
    ASSERT_EQ(lathe_gemm_run(prepared, at(stream)), LATHE_GEMM_OK);
    const DevicePointer workspace = launched().call.workspace;
    EXPECT_NE(workspace, 0U);
    if (first == 0) first = workspace;
    EXPECT_EQ(workspace == first, stream == 0x5);
  }
  lathe_gemm_product_destroy(prepared);
}

TEST_F(GemmCalls, WithoutMemoryAnotherKernelRuns) {
  const lathe_gemm_product prepared = prepare(kGathers);
  ASSERT_EQ(lathe_gemm_run(prepared, at(0x5)), LATHE_GEMM_OK);
  const FakeLaunch with = launched();
  cuda_->free_bytes = 0;
  ASSERT_EQ(lathe_gemm_run(prepared, at(0x6)), LATHE_GEMM_OK);
  const FakeLaunch without = launched();
  EXPECT_NE(with.function, without.function);
  EXPECT_EQ(without.call.workspace, 0U);
  ASSERT_EQ(call(kGathers, 0x6), LATHE_GEMM_OK);
  expect_same(without, launched());
  lathe_gemm_product_destroy(prepared);
}

TEST_F(GemmCalls, ThreadsMayRunOneProductAtOnce) {
  const lathe_gemm_product prepared = prepare(kLarge);
  ASSERT_EQ(lathe_gemm_run(prepared, nullptr), LATHE_GEMM_OK);
  const FakeLaunch alone = launched();
  // The fake's list is not for several threads: they take turns.
  for (int i = 0; i < 2; ++i) {
    std::thread([&] { EXPECT_EQ(lathe_gemm_run(prepared, nullptr), LATHE_GEMM_OK); }).join();
    expect_same(alone, launched());
  }
  lathe_gemm_product_destroy(prepared);
}

TEST_F(GemmCalls, NothingIsLaunchedForAnEmptyMatrix) {
  const lathe_gemm_product prepared = prepare({.m = 0});
  EXPECT_EQ(lathe_gemm_run(prepared, nullptr), LATHE_GEMM_OK);
  EXPECT_TRUE(cuda_->launches.empty());
  lathe_gemm_product_destroy(prepared);
}

TEST_F(GemmCalls, WhatIsWrongWithAPreparationOrARunIsSaid) {
  lathe_gemm_product product = reinterpret_cast<lathe_gemm_product>(at(1));
  EXPECT_EQ(lathe_hgemm_prepare(handle_, LATHE_GEMM_TN, 64, 64, 64, 1, at(0x10000), 63, at(0x20000), 64, 0,
                                at(0x30000), 64, LATHE_GEMM_FP32, &product),
            LATHE_GEMM_INVALID);
  EXPECT_THAT(lathe_gemm_last_error(), HasSubstr("lda is less than k"));
  EXPECT_EQ(product, nullptr);
  EXPECT_EQ(lathe_hgemm_prepare(handle_, LATHE_GEMM_TN, 64, 64, 64, 1, at(0x10000), 64, at(0x20000), 64, 0,
                                at(0x30000), 64, LATHE_GEMM_FP32, nullptr),
            LATHE_GEMM_INVALID);
  EXPECT_EQ(lathe_gemm_run(nullptr, nullptr), LATHE_GEMM_INVALID);
  EXPECT_THAT(lathe_gemm_last_error(), HasSubstr("product is null"));
  lathe_gemm_product_destroy(nullptr);
  const lathe_gemm_product prepared = prepare(kShort);
  cuda_->launch_code = 719;
  EXPECT_EQ(lathe_gemm_run(prepared, nullptr), LATHE_GEMM_DRIVER_ERROR);
  EXPECT_THAT(lathe_gemm_last_error(), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
  lathe_gemm_product_destroy(prepared);
}

}  // namespace
}  // namespace lathe::gemm
