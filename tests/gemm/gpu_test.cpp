#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/parallel.h"
#include "gemm/catalogue.h"
#include "gemm/cuda/cuda_device.h"
#include "gemm/kernel_source.h"
#include "tests/backend/cuda/without_gpu.h"
#include "tests/gemm/gemm_compiler.h"

namespace lathe::gemm {
namespace {

class GemmOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!compile_.works()) LATHE_WITHOUT_GPU("no NVRTC");
    auto device = open_cuda_device(0, compile_);
    if (!device.ok()) LATHE_WITHOUT_GPU(device.error().message);
    device_ = *std::move(device);
  }

  struct Case {
    Plan plan;
    Size size;
  };

  /// Verifies all that a kernel's plan lets it compute; returns how many these are.
  int expect_right(const std::vector<Case>& cases, int repeats) {
    std::vector<Build> builds(cases.size());
    const Status built = for_each_index(static_cast<int>(cases.size()), [&](int i) -> Status {
      const auto at = static_cast<std::size_t>(i);
      LATHE_TRY(builds[at], compile_(kernel_source(cases[at].plan), Inspect::kNo));
      return Ok{};
    });
    EXPECT_TRUE(built.ok()) << built.error().message;
    int verified = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto& [plan, size] = cases[i];
      Problem problem{plan.layout, size.m, size.n, size.k};
      problem.half_sums = plan.half_sums;
      if (plan.edges != Edges::kAny && !serves(plan, problem)) continue;
      const auto kernel = device_->add_kernel(plan, builds[i].cubin);
      if (!kernel.ok()) {
        ADD_FAILURE() << name_of(plan) << ": " << kernel.error().message;
        continue;
      }
      const Status right = device_->verify(size, *kernel, repeats);
      EXPECT_TRUE(right.ok()) << right.error().message;
      ++verified;
    }
    return verified;
  }

  const GemmCompiler compile_{"sm_90a"};
  std::unique_ptr<Device> device_;
};

constexpr Size kOdd[] = {{1, 1, 1},    {1, 200, 77},    {129, 65, 33}, {300, 7, 1000},
                         {64, 64, 64}, {257, 513, 129}, {130, 264, 0}};
constexpr Size kAligned[] = {
    {8, 8, 8}, {200, 136, 72}, {1000, 264, 4104}, {512, 1024, 2048}, {136, 4096, 64}};

TEST_F(GemmOnGpu, TheGeneralKernelsAreRightForAnySizeAndLayout) {
  std::vector<Case> cases;
  for (const Layout layout : {Layout::kNN, Layout::kTN, Layout::kNT, Layout::kTT})
    for (const Plan& plan : general_plans(layout))
      for (const Size& size :
           plan.edges == Edges::kAny ? std::span<const Size>(kOdd) : std::span<const Size>(kAligned))
        cases.push_back({plan, size});
  EXPECT_GE(expect_right(cases, 20), 60);
}

TEST_F(GemmOnGpu, TheBroadKernelsAreRightInEveryLayout) {
  std::vector<Case> cases;
  for (const Layout layout : {Layout::kNN, Layout::kTN, Layout::kNT, Layout::kTT})
    for (const Plan& plan : broad_plans(layout))
      for (const Size& size : kAligned) cases.push_back({plan, size});
  EXPECT_GE(expect_right(cases, 20), 150);
}

TEST_F(GemmOnGpu, WhatTheModelRanksHighestIsRight) {
  std::vector<Case> cases;
  for (const Size& size :
       {Size{64, 64, 64}, {128, 64, 4096}, {256, 256, 16384}, {1024, 1024, 1024}, {4096, 2048, 512}})
    for (const Plan& plan : shortlist({Layout::kTN, size.m, size.n, size.k}, device_->facts().sm_count, 12))
      cases.push_back({plan, size});
  EXPECT_GE(expect_right(cases, 50), 40);
}

TEST_F(GemmOnGpu, KernelsThatTakeTurnsOrHaveTwoChainsAreRight) {
  std::vector<Case> cases;
  for (const Size& size : {Size{512, 512, 1024}, {4096, 2048, 512}, {3000, 2056, 264}, {2048, 12288, 2048}})
    for (const Plan& plan : ranked_plans({Layout::kTN, size.m, size.n, size.k}, device_->facts().sm_count))
      if ((plan.in_turn || (plan.skeleton == Skeleton::kWgmma && plan.slices == 2)) &&
          std::count_if(cases.begin(), cases.end(), [&](const Case& one) { return one.size == size; }) < 8)
        cases.push_back({plan, size});
  EXPECT_GE(expect_right(cases, 50), 20);
}

/// Long steps, transposed tiles, and sums that blocks of a cluster exchange, apart and together.
TEST_F(GemmOnGpu, EveryKnobOfTheLoopsAndTheSumsIsRight) {
  std::vector<Case> cases;
  for (const Size& size : {Size{1024, 256, 2048}, {200, 1096, 4160}, {4096, 136, 1024}, {128, 1000, 16384}}) {
    std::set<std::tuple<int, int, bool, bool, int>> kinds;
    for (const Plan& plan : ranked_plans({Layout::kTN, size.m, size.n, size.k}, device_->facts().sm_count))
      if (plan.skeleton == Skeleton::kWgmma &&
          kinds
              .insert({plan.depth, std::min<int>(plan.split, 3), plan.gathers, plan.transposed,
                       plan.share_a * plan.share_b})
              .second)
        cases.push_back({plan, size});
  }
  EXPECT_GE(expect_right(cases, 20), 100);
}

TEST_F(GemmOnGpu, TheClockIsReadAfterItsKernelHasEnded) {
  for (int i = 0; i < 20; ++i) {
    const auto mhz = device_->clock_mhz();
    ASSERT_TRUE(mhz.ok()) << mhz.error().message;
    EXPECT_GT(*mhz, 100);
    EXPECT_LT(*mhz, 4000);
  }
}

TEST_F(GemmOnGpu, SumsInFp16AreRightAsSuchAndNotAsFp32) {
  std::vector<Case> cases;
  for (const Layout layout : {Layout::kTN, Layout::kNT})
    for (const Size& size : {Size{512, 1032, 4096}, {4096, 2048, 512}}) {
      Problem problem{layout, size.m, size.n, size.k};
      problem.half_sums = true;
      for (const Plan& plan : shortlist(problem, device_->facts().sm_count, 8))
        if (plan.half_sums) cases.push_back({plan, size});
    }
  EXPECT_GE(expect_right(cases, 20), 20);
  Plan claims_fp32 = cases.front().plan;
  const auto build = compile_(kernel_source(claims_fp32), Inspect::kNo);
  ASSERT_TRUE(build.ok());
  claims_fp32.half_sums = false;
  const auto kernel = device_->add_kernel(claims_fp32, build->cubin);
  ASSERT_TRUE(kernel.ok());
  const Status wrong = device_->verify(cases.front().size, *kernel, 1);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().reason, "wrong_result");
}

TEST_F(GemmOnGpu, TransposedTilesAndLongStepsAreRightInEveryLayout) {
  std::vector<Case> cases;
  for (const Layout layout : {Layout::kNN, Layout::kTN, Layout::kNT, Layout::kTT})
    for (const Size& size : {Size{328, 1032, 2112}, {1024, 512, 1024}}) {
      std::set<std::tuple<int, bool, bool, bool>> kinds;
      for (const Plan& plan : ranked_plans({layout, size.m, size.n, size.k}, device_->facts().sm_count))
        if (plan.skeleton == Skeleton::kWgmma &&
            kinds.insert({plan.depth, plan.split > 1, plan.gathers, plan.transposed}).second)
          cases.push_back({plan, size});
    }
  EXPECT_GE(expect_right(cases, 20), 60);
}

}  // namespace
}  // namespace lathe::gemm
