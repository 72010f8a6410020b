#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "gemm/runtime/lathe_gemm.h"
#include "gemm/runtime/library.h"

namespace lathe::gemm {

namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// As a caller in C may pass it.
template <class Enum>
Enum out_of_range(int value) {
  Enum result;
  static_assert(sizeof result == sizeof value);
  std::memcpy(&result, &value, sizeof value);
  return result;
}

struct Call {
  lathe_gemm_layout layout = LATHE_GEMM_NN;
  std::int64_t m = 8, n = 16, k = 32, lda = 32, ldb = 16, ldc = 16;
  std::uintptr_t a = 0x1000, b = 0x2000, c = 0x3000;
  lathe_gemm_accumulator accumulator = LATHE_GEMM_FP32;

  lathe_gemm_status operator()() const {
    return lathe_hgemm(nullptr, layout, m, n, k, 1, reinterpret_cast<const void*>(a), lda,
                       reinterpret_cast<const void*>(b), ldb, 0, reinterpret_cast<void*>(c), ldc, accumulator,
                       nullptr);
  }
};

void expect_invalid(const Call& call, const char* why) {
  EXPECT_EQ(call(), LATHE_GEMM_INVALID) << why;
  EXPECT_THAT(lathe_gemm_last_error(), HasSubstr(why));
}

TEST(GemmLibrary, SaysWhichArgumentIsWrong) {
  expect_invalid({.layout = out_of_range<lathe_gemm_layout>(7)}, "layout");
  expect_invalid({.m = -1}, "negative");
  expect_invalid({.k = std::int64_t{1} << 40}, "2^30");
  expect_invalid({.lda = 31}, "lda is less than k");
  expect_invalid({.layout = LATHE_GEMM_NT, .lda = 7}, "lda is less than m");
  expect_invalid({.ldb = 15}, "ldb is less than n");
  expect_invalid({.layout = LATHE_GEMM_TN, .ldb = 31}, "ldb is less than k");
  expect_invalid({.ldc = 15}, "ldc");
  expect_invalid({.a = 0}, "null");
  expect_invalid({.b = 0x2001}, "aligned");
  expect_invalid({.c = 0}, "c is null");
  expect_invalid({.c = 0x3001}, "c is not aligned");
  expect_invalid({.accumulator = out_of_range<lathe_gemm_accumulator>(2)}, "accumulator");
  expect_invalid({}, "handle");
}

TEST(GemmLibrary, NeedsNoOperandsForAnEmptySum) {
  expect_invalid({.k = 0, .lda = 0, .ldb = 0, .a = 0, .b = 0}, "handle");
}

TEST(GemmLibrary, ErrorsBelongToTheirThread) {
  expect_invalid({.m = -1}, "negative");
  std::thread([] { EXPECT_STREQ(lathe_gemm_last_error(), ""); }).join();
  EXPECT_THAT(lathe_gemm_last_error(), HasSubstr("negative"));
}

TEST(GemmLibrary, UsesTheTunedKernelOfASizeWhereItServes) {
  EXPECT_THAT(lathe_gemm_kernel(LATHE_GEMM_TN, 64, 64, 64, 0), StartsWith("direct_tn_16x16"));
  EXPECT_THAT(lathe_gemm_kernel(LATHE_GEMM_TN, 64, 64, 8192, 0), StartsWith("mma_tn_64x64x64_w2x2_g1_s2_c4"));
  EXPECT_THAT(lathe_gemm_kernel(LATHE_GEMM_NN, 64, 64, 64, 0), testing::Not(StartsWith("direct")));
  const Image* const unaligned = choose(library(), {Layout::kTN, 64, 64, 64, false, true}, 132, true);
  ASSERT_NE(unaligned, nullptr);
  EXPECT_EQ(unaligned->plan.edges, Edges::kAny);
}

TEST(GemmLibrary, OtherSizesGetTheModelsChoice) {
  EXPECT_THAT(lathe_gemm_kernel(LATHE_GEMM_NN, 8000, 8000, 4000, 0), StartsWith("wgmma_nn_128x"));
  EXPECT_THAT(lathe_gemm_kernel(LATHE_GEMM_TT, 7, 5, 3, 0), testing::EndsWith("_any"));
  EXPECT_EQ(lathe_gemm_kernel(LATHE_GEMM_TN, 0, 1, 1, 0), nullptr);
}

TEST(GemmLibrary, SumsInFp16OnlyWhereTheyWillDo) {
  Problem problem{Layout::kTN, 64, 64, 8192};
  EXPECT_THAT(name_of(choose(library(), problem, 132, true)->plan), StartsWith("mma_tn_64x64x64"));
  problem.half_sums = true;
  EXPECT_TRUE(choose(library(), problem, 132, true)->plan.half_sums);
  EXPECT_FALSE(choose(library(), problem, 108, false)->plan.half_sums) << "an older GPU has no wgmma";
  // What was tuned for fp32 alone serves both.
  problem.k = 64;
  EXPECT_THAT(name_of(choose(library(), problem, 132, true)->plan), StartsWith("direct_tn_16x16"));
  for (const std::int64_t extent : {64, 100, 1000, 4096})
    EXPECT_FALSE(choose(library(), {Layout::kTN, extent, extent, 8192}, 132, true)->plan.half_sums);
}

TEST(GemmLibrary, SharesALongKThroughMemoryWhereThereIsSome) {
  Problem problem{Layout::kTN, 128, 1024, 16384};
  EXPECT_TRUE(choose(library(), problem, 132, true)->plan.gathers);
  problem.workspace = false;
  EXPECT_FALSE(choose(library(), problem, 132, true)->plan.gathers);
}

TEST(GemmLibrary, SaysWhyAWorkspaceWillNotDo) {
  alignas(256) static char memory[512];
  EXPECT_EQ(lathe_gemm_set_workspace(nullptr, nullptr, memory, 512), LATHE_GEMM_INVALID);
  EXPECT_THAT(lathe_gemm_last_error(), HasSubstr("less than lathe_gemm_workspace_bytes()"));
  EXPECT_EQ(lathe_gemm_set_workspace(nullptr, nullptr, memory + 8, lathe_gemm_workspace_bytes()),
            LATHE_GEMM_INVALID);
  EXPECT_THAT(lathe_gemm_last_error(), HasSubstr("256"));
  EXPECT_EQ(lathe_gemm_set_workspace(nullptr, nullptr, nullptr, 0), LATHE_GEMM_INVALID);
  EXPECT_THAT(lathe_gemm_last_error(), HasSubstr("handle"));
}

TEST(GemmLibrary, AnOlderGpuGetsKernelsItCanRun) {
  for (const Problem& problem : {Problem{Layout::kTN, 64, 64, 64}, Problem{Layout::kNT, 4096, 4096, 4096}}) {
    const Image* const image = choose(library(), problem, 108, false);
    ASSERT_NE(image, nullptr);
    EXPECT_NE(image->sm80, nullptr);
    EXPECT_EQ(image->plan.split, 1);
    EXPECT_NE(image->plan.skeleton, Skeleton::kWgmma);
  }
}

TEST(GemmLibrary, AHandleNeedsAContext) {
  lathe_gemm_handle handle = nullptr;
  EXPECT_EQ(lathe_gemm_create(nullptr), LATHE_GEMM_INVALID);
  EXPECT_EQ(lathe_gemm_create(&handle), LATHE_GEMM_NO_DEVICE) << "this thread has made no context";
  EXPECT_EQ(handle, nullptr);
  lathe_gemm_destroy(handle);
}

}  // namespace
}  // namespace lathe::gemm
