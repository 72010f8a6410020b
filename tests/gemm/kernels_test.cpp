#include <fmt/format.h>
#include <gmock/gmock.h>

#include "backend/cuda/broker/cubin_image.h"
#include "gemm/catalogue.h"
#include "gemm/kernel_source.h"
#include "gemm/tuner.h"
#include "tests/gemm/gemm_compiler.h"

namespace lathe::gemm {
namespace {

/// One kernel of each kind, and those that every library has.
std::vector<Plan> samples() {
  std::vector<Plan> plans;
  for (const char* name : {"direct_tn_16x16x32_w1x1_g2_s1_c1_m1_b1_o1_k1_vectors",
                           "direct_tn_32x32x32_w1x1_g8_s2_c8_m1_b1_o1_k4_vectors",
                           "mma_tn_64x64x64_w2x2_g1_s4_c8_m1_b1_o1_k4_whole",
                           "mma_tn_32x64x128_w2x2_g2_s3_c16_m1_b1_o1_k0_whole",
                           "mma_nt_128x128x32_w2x2_g1_s4_c1_m1_b1_o1_k0_vectors",
                           "wgmma_tn_128x256x64_w2x1_g1_s4_c1_m2_b8_o1_k0_persistent_vectors",
                           "wgmma_nn_128x192x64_w2x1_g1_s4_c1_m1_b8_o1_k0_persistent_vectors",
                           "wgmma_tt_64x64x64_w1x1_g1_s6_c8_m1_b8_o2_k0_vectors"}) {
    Plan plan;
    EXPECT_TRUE(plan_of(name, plan)) << name;
    plans.push_back(plan);
  }
  for (const Layout layout : {Layout::kNN, Layout::kTN, Layout::kNT, Layout::kTT})
    for (const auto& some : {general_plans(layout), broad_plans(layout)})
      plans.insert(plans.end(), some.begin(), some.end());
  return plans;
}

/// The kernel, and a proof that the library asks for as much shared memory as it uses.
std::string checked_source(const Plan& plan, Element element = Element::kFp16) {
  std::string source = kernel_source(plan, element);
  const int bytes = shared_bytes_of(plan);
  if (plan.skeleton == Skeleton::kWgmma)
    source += fmt::format("static_assert(sizeof(Product::Shared) <= {});\n", bytes);
  else if (plan.skeleton == Skeleton::kMma)
    source += fmt::format(
        "static_assert(Product::kRingBytes + 4 * int{{Product::Partials::kFloats}} == {});\n", bytes);
  else
    source += fmt::format("static_assert(4 * int{{Product::Partials::kFloats}} == {});\n", bytes);
  return source + fmt::format("static_assert(Product::kThreads == {});\n", threads_of(plan));
}

TEST(GemmKernels, EveryKindCompilesForHopperWithoutSpillsAndSumsInFp32) {
  const GemmCompiler compile("sm_90a");
  if (!compile.works()) GTEST_SKIP() << "no NVRTC";
  for (const Plan& plan : samples()) {
    const auto built = compile(checked_source(plan), Inspect::kYes);
    ASSERT_TRUE(built.ok()) << name_of(plan) << "\n" << built.error().message;
    EXPECT_EQ(objection_to(*built, plan), "") << name_of(plan);
    EXPECT_GT(built->facts.at("registers"), 16) << name_of(plan);
    if (compile.has_disassembler()) {
      const char* const products = plan.skeleton == Skeleton::kWgmma ? "hgmma_f32" : "hmma_f32";
      EXPECT_TRUE(built->facts.contains(products)) << name_of(plan);
    }
  }
}

TEST(GemmKernels, ThePortableOnesCompileForAmpere) {
  const GemmCompiler compile("sm_80");
  if (!compile.works()) GTEST_SKIP() << "no NVRTC";
  int compiled = 0;
  for (const Plan& plan : samples()) {
    if (!is_portable(plan)) continue;
    const auto built = compile(checked_source(plan), Inspect::kYes);
    ASSERT_TRUE(built.ok()) << name_of(plan) << "\n" << built.error().message;
    EXPECT_EQ(objection_to(*built, plan), "") << name_of(plan);
    ++compiled;
  }
  EXPECT_GE(compiled, 12);
}

TEST(GemmKernels, TheSameSkeletonsServeBf16) {
  const GemmCompiler compile("sm_90a");
  if (!compile.works()) GTEST_SKIP() << "no NVRTC";
  const auto plans = samples();
  for (std::size_t i = 0; i < 8; ++i) {
    const auto built = compile(checked_source(plans[i], Element::kBf16), Inspect::kYes);
    ASSERT_TRUE(built.ok()) << name_of(plans[i]) << "\n" << built.error().message;
    EXPECT_EQ(objection_to(*built, plans[i]), "") << name_of(plans[i]);
  }
}

TEST(GemmKernels, AKernelThatSpillsIsObjectedTo) {
  const GemmCompiler compile("sm_90a");
  if (!compile.works()) GTEST_SKIP() << "no NVRTC";
  Plan plan;
  ASSERT_TRUE(plan_of("mma_tn_128x128x32_w2x2_g1_s4_c1_m1_b1_o4_k0_vectors", plan));
  const auto built = compile(kernel_source(plan), Inspect::kYes);
  ASSERT_TRUE(built.ok()) << built.error().message;
  EXPECT_EQ(objection_to(*built, plan), "registers are spilled");
}

}  // namespace
}  // namespace lathe::gemm
