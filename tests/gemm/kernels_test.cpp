#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/parallel.h"
#include "gemm/catalogue.h"
#include "gemm/kernel_source.h"
#include "gemm/tuner.h"
#include "tests/gemm/gemm_compiler.h"

namespace lathe::gemm {
namespace {

Plan plan_named(const std::string& name) {
  Plan plan;
  EXPECT_TRUE(plan_of(name, plan)) << name;
  return plan;
}

/// One kernel of each kind.
std::vector<Plan> samples() {
  std::vector<Plan> plans;
  for (const char* name :
       {"direct_tn_16x16x32_w1x1_g2_s1_c1_m1_n1_b1_o1_k1_vectors",
        "direct_tn_32x32x32_w1x1_g8_s2_c8_m1_n1_b1_o1_k4_vectors",
        "mma_tn_64x64x64_w2x2_g1_s4_c8_m1_n1_b1_o1_k4_whole",
        "mma_tn_32x64x128_w2x2_g2_s3_c16_m1_n1_b1_o1_k0_whole",
        "mma_nt_128x128x32_w2x2_g1_s4_c1_m1_n1_b1_o1_k0_vectors",
        "mma_nn_64x64x32_w2x2_g1_s3_c1_m1_n1_b1_o1_k0_any",
        "wgmma_tn_128x256x64_w2x1_g1_s4_c1_m2_n1_b8_o1_k0_persistent_vectors",
        "wgmma_nn_128x192x64_w2x1_g1_s4_c1_m1_n1_b8_o1_k0_persistent_vectors",
        "wgmma_tt_64x64x64_w1x1_g1_s6_c8_m1_n1_b8_o2_k0_vectors",
        "wgmma_tn_128x128x64_w2x1_g1_s4_c4_m1_n2_b8_o1_k0_vectors",
        "wgmma_nt_128x128x64_w2x1_g1_s3_c1_m2_n2_b8_o1_k0_vectors",
        "wgmma_tn_64x32x64_w1x1_g1_s6_c1_m1_n1_b8_o2_k0_plain_vectors",
        "wgmma_tn_128x128x64_w2x1_g1_s7_c5_m1_n1_b8_o1_k0_gathers_vectors",
        "wgmma_tn_64x64x64_w1x1_g2_s5_c16_m1_n1_b8_o2_k0_gathers_vectors",
        "wgmma_tn_128x64x64_w1x1_g1_s6_c4_m1_n2_b8_o1_k0_gathers_vectors",
        "wgmma_tn_256x128x64_w2x1_g1_s4_c1_m1_n1_b8_o1_k0_persistent_vectors",
        "wgmma_nt_128x128x64_w2x1_g1_s4_c1_m1_n1_b8_o1_k0_persistent_turns_vectors",
        "wgmma_tn_128x160x64_w2x1_g1_s5_c1_m2_n1_b8_o1_k0_persistent_turns_vectors",
        "wgmma_tn_128x192x64_w2x1_g1_s4_c1_m2_n1_b8_o1_k0_persistent_turns_vectors",
        "wgmma_tn_192x128x64_w2x1_g1_s4_c1_m2_n1_b8_o1_k0_persistent_turns_vectors",
        "wgmma_tn_64x32x128_w1x1_g2_s7_c1_m1_n1_b0_o1_k0_vectors",
        "wgmma_tn_64x192x128_w1x1_g1_s3_c1_m1_n1_b0_o1_k0_transposed_vectors",
        "wgmma_tn_128x32x128_w2x1_g1_s4_c8_m1_n1_b0_o1_k0_transposed_vectors",
        "wgmma_tn_128x128x128_w2x1_g1_s2_c2_m2_n2_b0_o1_k0_vectors",
        "wgmma_tn_64x96x128_w1x1_g1_s4_c8_m1_n2_b0_o1_k0_gathers_transposed_vectors",
        "wgmma_nn_64x64x128_w1x1_g1_s6_c4_m1_n1_b0_o1_k0_vectors",
        "wgmma_nt_128x64x128_w1x1_g1_s4_c1_m1_n1_b0_o1_k0_transposed_vectors",
        "wgmma_nn_64x128x64_w2x1_g1_s8_c1_m1_n1_b8_o1_k0_persistent_turns_transposed_vectors"})
    plans.push_back(plan_named(name));
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
        "static_assert(Product::kRingBytes + int{{Product::Partials::kReceivedBytes}} == {});\n", bytes);
  else
    source += fmt::format(
        "static_assert(int{{Product::Partials::kStagingBytes}} + int{{Product::Partials::kReceivedBytes}} == "
        "{});\n",
        bytes);
  return source + fmt::format("static_assert(Product::kThreads == {});\n", threads_of(plan));
}

/// Compiles all, as many at once as there are processors.
std::vector<Build> build_all(const GemmCompiler& compile, const std::vector<Plan>& plans,
                             Element element = Element::kFp16) {
  std::vector<Build> builds(plans.size());
  const Status built = for_each_index(static_cast<int>(plans.size()), [&](int i) -> Status {
    const auto at = static_cast<std::size_t>(i);
    LATHE_TRY(builds[at], compile(checked_source(plans[at], element), Inspect::kYes));
    return Ok{};
  });
  EXPECT_TRUE(built.ok()) << built.error().message;
  return builds;
}

/// Empty for a build that may be used.
std::string objection(const Build& build, const Plan& plan) {
  const Status usable = check_code(build, plan);
  return usable.ok() ? "" : usable.error().reason + ": " + usable.error().message;
}

void expect_good(const GemmCompiler& compile, const std::vector<Plan>& plans,
                 Element element = Element::kFp16) {
  if (!compile.works()) GTEST_SKIP() << "no NVRTC";
  const std::vector<Build> builds = build_all(compile, plans, element);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    SCOPED_TRACE(name_of(plans[i]));
    EXPECT_EQ(objection(builds[i], plans[i]), "");
    EXPECT_TRUE(builds[i].facts.contains("registers"));
    const char* const products = plans[i].skeleton != Skeleton::kWgmma ? "hmma_f32"
                                 : plans[i].half_sums                  ? "hgmma_f16"
                                                                       : "hgmma_f32";
    EXPECT_EQ(builds[i].facts.contains(products), compile.has_disassembler());
  }
}

TEST(GemmKernels, EveryKindCompilesForHopperWithoutSpillsAndSumsInFp32) {
  expect_good(GemmCompiler("sm_90a"), samples());
}

TEST(GemmKernels, SumsInFp16AreWhatTheirNameSaysAndNothingElse) {
  const GemmCompiler compile("sm_90a");
  std::vector<Plan> plans;
  for (const char* name : {"wgmma_tn_256x256x64_w2x1_g1_s3_c1_m1_n1_b8_o1_k0_persistent_half_vectors",
                           "wgmma_tn_64x96x128_w1x1_g1_s4_c1_m1_n1_b0_o1_k0_transposed_half_vectors",
                           "wgmma_nt_128x128x64_w2x1_g1_s4_c4_m1_n1_b0_o1_k0_half_vectors",
                           "wgmma_tn_64x64x64_w1x1_g1_s5_c6_m1_n1_b0_o1_k0_gathers_half_vectors",
                           "wgmma_nn_128x192x64_w2x1_g1_s4_c1_m1_n1_b8_o1_k0_persistent_turns_half_vectors",
                           "wgmma_tn_64x32x64_w1x1_g1_s6_c1_m1_n1_b0_o2_k0_plain_half_vectors"})
    plans.push_back(plan_named(name));
  expect_good(compile, plans);
  if (!compile.has_disassembler()) GTEST_SKIP() << "no nvdisasm";
  Plan claims_fp32 = plans[1];
  claims_fp32.half_sums = false;
  EXPECT_EQ(objection(build_all(compile, {plans[1]})[0], claims_fp32),
            "tampered: the tensor cores sum in fp16");
  EXPECT_EQ(objection(build_all(compile, {claims_fp32})[0], plans[1]),
            "wrong_code: there are no tensor-core products with fp16 sums");
}

TEST(GemmKernels, ThePortableOnesCompileForAmpere) {
  std::vector<Plan> plans = samples();
  std::erase_if(plans, [](const Plan& plan) { return !is_portable(plan); });
  ASSERT_EQ(plans.size(), 3u);
  for (const Plan& plan : general_plans(Layout::kTT)) plans.push_back(plan);
  expect_good(GemmCompiler("sm_80"), plans);
}

TEST(GemmKernels, TheSameSkeletonsServeBf16) {
  std::vector<Plan> plans = samples();
  expect_good(GemmCompiler("sm_90a"), {plans[0], plans[2], plans[6]}, Element::kBf16);
}

TEST(GemmKernels, AKernelThatSpillsIsObjectedTo) {
  const GemmCompiler compile("sm_90a");
  if (!compile.works()) GTEST_SKIP() << "no NVRTC";
  const Plan plan = plan_named("mma_tn_128x128x32_w2x2_g1_s4_c1_m1_n1_b1_o4_k0_vectors");
  EXPECT_EQ(objection(build_all(compile, {plan})[0], plan), "wrong_code: registers are spilled");
}

}  // namespace
}  // namespace lathe::gemm
