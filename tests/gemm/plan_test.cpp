#include "gemm/runtime/plan.h"

#include <gmock/gmock.h>

#include "gemm/catalogue.h"
#include "gemm/sizes.h"

namespace lathe::gemm {
namespace {

constexpr int kSmCount = 132, kMaxShared = 227 * 1024;

TEST(GemmPlan, ItsNameSaysAllOfIt) {
  for (const Size& size : {Size{64, 64, 64}, Size{256, 64, 8192}, Size{8192, 8192, 4096}})
    for (const Plan& plan : ranked_plans({Layout::kTN, size.m, size.n, size.k}, kSmCount)) {
      Plan parsed;
      ASSERT_TRUE(plan_of(name_of(plan), parsed)) << name_of(plan);
      ASSERT_EQ(parsed, plan) << name_of(plan);
    }
}

TEST(GemmPlan, WhatIsNoNameIsRefused) {
  Plan plan;
  const std::string good = name_of(general_plans(Layout::kNN)[0]);
  ASSERT_TRUE(plan_of(good, plan));
  for (const std::string& bad :
       {std::string(), std::string("mma"), good + "x", "x" + good, good.substr(0, good.size() - 1),
        std::string("mma_tn_70000x64x64_w2x2_g1_s4_c1_m1_n1_b1_o1_k0_whole")})
    EXPECT_FALSE(plan_of(bad, plan)) << bad;
}

TEST(GemmPlan, EverySizeHasManyKernelsThatFit) {
  for (const Size& size : all_sizes()) {
    const Problem problem{Layout::kTN, size.m, size.n, size.k};
    const auto plans = shortlist(problem, kSmCount, 24);
    ASSERT_GE(plans.size(), 12u) << name_of(size);
    for (const Plan& plan : plans) {
      ASSERT_TRUE(serves(plan, problem)) << name_of(plan);
      ASSERT_LE(shared_bytes_of(plan), kMaxShared) << name_of(plan);
      ASSERT_LE(threads_of(plan), 1024) << name_of(plan);
    }
  }
}

TEST(GemmPlan, TheGeneralKernelsServeEverything) {
  for (const Layout layout : {Layout::kNN, Layout::kTN, Layout::kNT, Layout::kTT})
    for (const Problem& problem :
         {Problem{layout, 1, 1, 1, false, false}, Problem{layout, 77, 3, 0, true, true},
          Problem{layout, 1 << 20, 1 << 20, 5, true, false}}) {
      const auto plans = general_plans(layout);
      EXPECT_TRUE(serves(plans.back(), problem));
    }
}

TEST(GemmPlan, AKernelThatReliesOnAlignmentOrExtentsServesNothingElse) {
  Plan plan = general_plans(Layout::kTN)[1];
  Problem problem{Layout::kTN, 100, 72, 40};
  EXPECT_TRUE(serves(plan, problem));
  problem.aligned = false;
  EXPECT_FALSE(serves(plan, problem));
  plan.edges = Edges::kWhole;
  EXPECT_FALSE(serves(plan, {Layout::kTN, 100, 64, 64}));
  EXPECT_TRUE(serves(plan, {Layout::kTN, 128, 64, 64}));
  EXPECT_FALSE(serves(plan, {Layout::kNN, 128, 64, 64}));
  plan.steps = 3;
  EXPECT_FALSE(serves(plan, {Layout::kTN, 128, 64, 64}));
  EXPECT_TRUE(serves(plan, {Layout::kTN, 128, 64, 96}));
}

TEST(GemmPlan, AGridCoversEveryTileOnce) {
  Plan plan = general_plans(Layout::kTN)[1];
  plan.split = 4;
  const Grid grid = grid_of(plan, {Layout::kTN, 129, 64, 1024}, kSmCount);
  EXPECT_EQ(grid.x, 3u * 4);
  EXPECT_EQ(grid.y, 1u);
  const Grid wide = grid_of(plan, {Layout::kTN, 64, 64LL * 65536, 1024}, kSmCount);
  EXPECT_LE(wide.y, 65535u);
  EXPECT_GE(std::uint64_t{wide.y} * wide.z, 65536u);
}

TEST(GemmPlan, APersistentGridIsNoLargerThanTheGpu) {
  Plan plan = broad_plans(Layout::kTN)[0];
  ASSERT_TRUE(plan.persistent);
  EXPECT_EQ(grid_of(plan, {Layout::kTN, 16384, 16384, 64}, kSmCount).x, 132u);
  EXPECT_EQ(grid_of(plan, {Layout::kTN, 128, 256, 64}, kSmCount).x, 1u);
}

TEST(GemmPlan, TransposedTilesLieAcrossC) {
  Plan plan = broad_plans(Layout::kTN)[3];
  ASSERT_EQ(plan.rows, 64);
  ASSERT_EQ(plan.columns, 128);
  const Problem problem{Layout::kTN, 4096, 64, 1024};
  plan.band = 0;
  EXPECT_EQ(grid_of(plan, problem, kSmCount).x, 64u);
  EXPECT_EQ(grid_of(plan, problem, kSmCount).y, 1u);
  plan.transposed = true;
  EXPECT_EQ(grid_of(plan, problem, kSmCount).x, 1u);
  EXPECT_EQ(grid_of(plan, problem, kSmCount).y, 32u);
  plan.band = 8;
  EXPECT_EQ(grid_of(plan, problem, kSmCount).x, 32u);
}

TEST(GemmPlan, LongStepsNeedKIn64s) {
  Plan plan = broad_plans(Layout::kTN)[3];
  EXPECT_TRUE(serves(plan, {Layout::kTN, 64, 128, 72}));
  plan.depth = 128, plan.stages = 4;
  EXPECT_FALSE(serves(plan, {Layout::kTN, 64, 128, 72}));
  EXPECT_TRUE(serves(plan, {Layout::kTN, 64, 128, 192}));
}

/// What few tiles and long K are tuned among.
TEST(GemmPlan, FewTilesOfLongProductsAreTriedInEveryWay) {
  for (const Size& size : {Size{1024, 256, 2048}, {4096, 128, 4096}, {128, 1024, 4096}, {1024, 512, 1024}}) {
    bool long_steps = false, transposed = false, shared = false, exchanged = false, gathered = false;
    for (const Plan& plan : shortlist({Layout::kTN, size.m, size.n, size.k}, kSmCount, 36)) {
      if (plan.skeleton != Skeleton::kWgmma) continue;
      long_steps |= plan.depth == 128, transposed |= plan.transposed;
      shared |= plan.share_a * plan.share_b > 1;
      exchanged |= plan.split > 1 && !plan.gathers, gathered |= plan.gathers;
    }
    EXPECT_TRUE(long_steps && transposed && shared) << name_of(size);
    EXPECT_TRUE(exchanged || size.k < 2048) << name_of(size);
    EXPECT_TRUE(gathered || size.k < 4096) << name_of(size);
  }
}

TEST(GemmModel, SplitsLongProductsOfFewTilesAndNotOthers) {
  EXPECT_GT(ranked_plans({Layout::kTN, 128, 128, 16384}, kSmCount)[0].split, 1);
  EXPECT_EQ(ranked_plans({Layout::kTN, 8192, 8192, 8192}, kSmCount)[0].split, 1);
}

TEST(GemmModel, PrefersWgmmaForLargeAndDirectLoadsForTinyProducts) {
  EXPECT_EQ(ranked_plans({Layout::kTN, 8192, 8192, 8192}, kSmCount)[0].skeleton, Skeleton::kWgmma);
  EXPECT_EQ(ranked_plans({Layout::kTN, 64, 64, 64}, kSmCount)[0].skeleton, Skeleton::kDirect);
}

TEST(GemmSizes, AreAThousandInSixFamilies) {
  EXPECT_EQ(all_sizes().size(), 1000u);
  EXPECT_EQ(family_of({64, 64, 64}, kSmCount), Family::kF);
  EXPECT_EQ(family_of({256, 256, 16384}, kSmCount), Family::kE);
  EXPECT_EQ(family_of({8192, 8192, 8192}, kSmCount), Family::kA);
  EXPECT_EQ(family_of({8192, 8192, 64}, kSmCount), Family::kB);
  EXPECT_EQ(family_of({2048, 4096, 512}, kSmCount), Family::kC);
  EXPECT_EQ(family_of({2048, 2048, 512}, kSmCount), Family::kD);
}

TEST(GemmSizes, AreReadFromText) {
  EXPECT_EQ(parse_sizes("slice")->size(), 50u);
  EXPECT_EQ(parse_sizes("even:100")->size(), 100u);
  EXPECT_THAT(*parse_sizes("1x2x3,64x64x8192"), testing::ElementsAre(Size{1, 2, 3}, Size{64, 64, 8192}));
  for (const char* bad : {"", "1x2", "1x2x3x4", "0x1x1", "ax1x1", "1x1x99999999999", "1x2x3;"})
    EXPECT_FALSE(parse_sizes(bad).ok()) << bad;
}

}  // namespace
}  // namespace lathe::gemm
