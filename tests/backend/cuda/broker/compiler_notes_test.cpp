#include "backend/cuda/broker/compiler_notes.h"

#include <gmock/gmock.h>

#include "backend/cuda/runner/nvrtc.h"

namespace lathe::cuda {
namespace {

using testing::Contains;
using testing::Gt;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;

class CompilerNotesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc_.ok()) GTEST_SKIP() << "no NVRTC: " << nvrtc_.error().to_string();
  }
  Compiled compile(const std::string& source) const {
    Compiled compiled =
        nvrtc_->compile(source, {"-arch=sm_90a", "-I" LATHE_SOURCE_DIR "/device", kNoteFlags});
    EXPECT_TRUE(compiled.ok) << compiled.log;
    return compiled;
  }
  const Result<Nvrtc> nvrtc_ = Nvrtc::open();
};

TEST_F(CompilerNotesTest, ASimpleKernelGivesNoNotes) {
  const Compiled compiled = compile("extern \"C\" __global__ void f(float* x) { *x = 1; }");
  EXPECT_THAT(facts_of_log(compiled.log), IsEmpty());
  const auto facts = facts_of_cubin(compiled.cubin);
  EXPECT_THAT(facts, Contains(Pair("registers", Gt(1))));
  EXPECT_THAT(facts, Contains(Pair("stack_bytes", 0)));
  EXPECT_THAT(facts, Not(Contains(Key("registers of f"))));
}

TEST_F(CompilerNotesTest, SpillsAreCountedAndShowInTheStackSize) {
  const Compiled compiled = compile(R"(
extern "C" __global__ void g(float* x) { *x = 1; }
extern "C" __global__ void __launch_bounds__(1024, 2) f(float* x) {
  float v[64];
  for (int i = 0; i < 64; ++i) v[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 64; ++i) x[i * 1024 + threadIdx.x] = v[i] * v[(i * 7) % 64];
})");
  EXPECT_THAT(facts_of_log(compiled.log), Contains(Pair("spill_bytes", Gt(100))));
  const auto facts = facts_of_cubin(compiled.cubin);
  EXPECT_THAT(facts, Contains(Pair("registers", 32)));
  EXPECT_THAT(facts, Contains(Pair("stack_bytes of f", Gt(100))));
  EXPECT_THAT(facts, Contains(Pair("stack_bytes of g", 0)));
}

TEST_F(CompilerNotesTest, SerialisedProductsAreNoted) {
  const Compiled compiled = compile(R"(
#include <lathe/cuda/wgmma.cuh>
using namespace lathe;
__device__ __noinline__ void other(float* x) { *x += sinf(*x); }
extern "C" __global__ void f(float* out) {
  __shared__ __align__(1024) float memory[8192];
  float d[64];
  const uint64_t tile = swizzled_tile(memory);
  void (*volatile call)(float*) = other;
  wgmma_begin();
  Wgmma<Fp16, 128>::run(d, tile, tile, false);
  call(out);
  Wgmma<Fp16, 128>::run(d, tile, tile, true);
  wgmma_commit();
  wgmma_wait<0>(d);
  for (int i = 0; i < 64; ++i) out[threadIdx.x + 128 * i] = d[i];
})");
  EXPECT_THAT(facts_of_log(compiled.log), Contains(Pair("wgmma_serialised", 1)));
}

TEST(CompilerNotes, OnlyTheAssemblersOwnLinesCount) {
  EXPECT_THAT(facts_of_log("candidate.cu(3): warning: 12 bytes spill stores\n"), IsEmpty());
  EXPECT_THAT(
      facts_of_log(
          "ptxas warning : (C7508) Potential Performance Loss: 'setmaxnreg' ignored to allow debugging."),
      Contains(Pair("setmaxnreg_ignored", 1)));
  EXPECT_THAT(
      facts_of_log(
          "ptxas warning : 8 bytes spill stores, 4 bytes spill loads\nptxas warning : 2 bytes spill stores"),
      Contains(Pair("spill_bytes", 14)));
  EXPECT_THAT(facts_of_cubin("no cubin"), IsEmpty());
}

}  // namespace
}  // namespace lathe::cuda
