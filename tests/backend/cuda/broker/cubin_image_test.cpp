#include "backend/cuda/broker/cubin_image.h"

#include <gmock/gmock.h>

#include <map>

#include "backend/cuda/runner/nvrtc.h"
#include "backend/cuda/wire/keeper_kernels.h"
#include "backend/cuda/wire/scrub_kernel.h"
#include "base/random.h"

namespace lathe::cuda {
namespace {

using testing::ElementsAre;

class CubinImageTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc_.ok()) GTEST_SKIP() << "no NVRTC: " << nvrtc_.error().to_string();
  }
  std::string cubin_of(const std::string& source) const {
    const Compiled compiled = nvrtc_->compile(source, {"-arch=sm_90a"});
    EXPECT_TRUE(compiled.ok) << compiled.log;
    return compiled.cubin;
  }
  const Result<Nvrtc> nvrtc_ = Nvrtc::open();
};

TEST_F(CubinImageTest, NamesKernelsAndCountsTheirCode) {
  const auto image = parse_cubin(cubin_of("extern \"C\" __global__ void f(float* x) { *x = sinf(*x); }"));
  ASSERT_TRUE(image.ok()) << image.error().to_string();
  EXPECT_THAT(image->kernels, ElementsAre("f"));
  EXPECT_GT(image->code_bytes, 0U);
  EXPECT_EQ(image->variable_bytes, 0U);
}

TEST_F(CubinImageTest, ReportsEachKernelsResources) {
  const std::string source = R"(
extern "C" __global__ void lean(float* x) { x[threadIdx.x] = 1; }
extern "C" __global__ void rich(float* x, int n) {
  __shared__ float tile[100];
  tile[threadIdx.x % 100] = x[n];
  __syncthreads();
  float local[100];
  for (int i = 0; i < 100; ++i) local[i] = x[i] + tile[i];
  x[0] = local[n % 100] + local[n % 7];
})";
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    SCOPED_TRACE(arch);
    const Compiled compiled = nvrtc_->compile(source, {std::string("-arch=") + arch});
    const auto image = parse_cubin(compiled.cubin);
    ASSERT_TRUE(image.ok()) << image.error().to_string();
    std::map<std::string, KernelResources> kernels;
    for (const KernelResources& kernel : image->resources) kernels[kernel.name] = kernel;
    ASSERT_EQ(kernels.size(), 2U);
    EXPECT_GT(kernels["lean"].registers, 1);
    EXPECT_LT(kernels["lean"].registers, kernels["rich"].registers);
    EXPECT_EQ(kernels["lean"].shared_bytes, 0);
    EXPECT_EQ(kernels["rich"].shared_bytes, 400);
    EXPECT_EQ(kernels["lean"].stack_bytes, 0);
    EXPECT_EQ(kernels["rich"].stack_bytes, 400);
  }
}

TEST_F(CubinImageTest, AVariableInWhichCallsCouldKeepStateIsRefused) {
  EXPECT_EQ(
      check_cubin(cubin_of("__device__ int calls[65]; extern \"C\" __global__ void f(int i) { ++calls[i]; }"))
          .reason,
      "writable_state");
  EXPECT_EQ(
      check_cubin(cubin_of("__device__ int big[20000] = {1}; extern \"C\" __global__ void f() { ++big[7]; }"))
          .reason,
      "writable_state");
}

TEST_F(CubinImageTest, ConstantsWhoseValueIsZeroAreFine) {
  for (const std::string constant :
       {"__device__ constexpr float table[4] = {};", "__device__ const float table[4] = {0, 0, 0, 0};"})
    EXPECT_EQ(
        check_cubin(cubin_of(constant + "extern \"C\" __global__ void f(float* x, int i) { *x = table[i]; }"))
            .reason,
        "")
        << constant;
}

TEST_F(CubinImageTest, AConstantTableIsFine) {
  const std::string source =
      "__constant__ float table[2] = {1, 2}; constexpr int kTile = 4;"
      "extern \"C\" __global__ void f(float* x) { *x = table[threadIdx.x % 2] * kTile; }";
  EXPECT_EQ(check_cubin(cubin_of(source)).reason, "");
}

TEST_F(CubinImageTest, CallsIntoTheDeviceRuntimeAreRefused) {
  for (const char* body : {"printf(\"%d\", 1);", "*x = (long long)malloc(8);"}) {
    const auto refusal =
        check_cubin(cubin_of(std::string("extern \"C\" __global__ void f(float* x) { ") + body + " }"));
    EXPECT_EQ(refusal.reason, "forbidden_symbol") << body;
  }
}

TEST_F(CubinImageTest, LathesOwnKernelsCompileAndHoldNoState) {
  for (const char* text : {kKeeperKernels, kScrubKernel}) EXPECT_EQ(check_cubin(cubin_of(text)).reason, "");
}

TEST_F(CubinImageTest, DamagedCubinsAreErrorsOrHarmless) {
  const std::string whole = cubin_of("extern \"C\" __global__ void f(float* x) { *x = 1; }");
  Rng rng(Seed::from_number(3));
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = whole;
    for (int change = 0; change < 4; ++change)
      bytes[rng.below(i % 2 == 0 ? 64 : bytes.size())] = static_cast<char>(rng.below(256));
    if (i % 3 == 0) bytes.resize(rng.below(bytes.size()));
    (void)check_cubin(bytes);
  }
}

TEST(CubinImage, AnythingButACubinIsRefused) { EXPECT_EQ(check_cubin("#!/bin/sh").reason, "bad_cubin"); }

}  // namespace
}  // namespace lathe::cuda
