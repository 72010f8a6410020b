#include "backend/cuda/broker/sass.h"

#include <gmock/gmock.h>

#include "backend/cuda/broker/disassembler.h"
#include "backend/cuda/runner/nvrtc.h"
#include "base/fd.h"

namespace lathe::cuda {
namespace {

using testing::Contains;
using testing::Ge;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(Sass, CountsInstructionsByKind) {
  EXPECT_THAT(
      facts_of_sass(R"(
	.text.f:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/                   LDG.E R8, desc[UR4][R2.64] ;
        /*0030*/              @UP0 HGMMA.64x256x16.F32 R24, gdesc[UR16].tnspB, R24, UP0 ;
        /*0040*/                   HGMMA.64x256x16.F16 R24, gdesc[UR16], R24 ;
        /*0050*/                   HMMA.16816.F32.BF16 R4, R8, R10, R4 ;
        /*0060*/                   FFMA R0, R1, R2, R3;
        /*0070*/                   STL [R1], R0 ;
                                                          /* 0x000fe20000000f00 */
.L_x_1:
)"),
      UnorderedElementsAre(Pair("instructions", 8), Pair("ldg", 2), Pair("ldg_128", 1), Pair("hgmma_f32", 1),
                           Pair("hgmma_f16", 1), Pair("hmma_f32", 1), Pair("ffma", 1), Pair("stl", 1)));
}

TEST(Sass, OtherTextHoldsNoInstructions) {
  EXPECT_THAT(facts_of_sass(""), IsEmpty());
  EXPECT_THAT(facts_of_sass("/**/ FFMA\n/*00\n*/ FFMA\n/*zz*/ FFMA\n/*00*/\n/*00*/ @P0\n/*00*/ ;"),
              IsEmpty());
}

/// The machine code reveals the accumulator type of a product.
TEST(Disassembler, ShowsTheAccumulatorOfAProduct) {
  const auto nvrtc = Nvrtc::open();
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.error().to_string();
  auto disassembler =
      Disassembler::open(LATHE_BINARY_DIR "/bin/lathe-cuda-runner", testing::TempDir() + "lathe-sass");
  if (!disassembler.ok()) GTEST_SKIP() << disassembler.error().to_string();
  const auto example = read_file(LATHE_SOURCE_DIR "/examples/cuda/matmul_fp16.cu");
  ASSERT_TRUE(example.ok());
  const Compiled compiled = nvrtc->compile(*example, {"-arch=sm_90a", "-I" LATHE_SOURCE_DIR "/device"});
  ASSERT_TRUE(compiled.ok) << compiled.log;
  const auto text = (*disassembler)->run(compiled.cubin);
  ASSERT_TRUE(text.ok()) << text.error().to_string();
  const auto facts = facts_of_sass(*text);
  EXPECT_THAT(facts, Contains(Pair("hgmma_f32", 4)));
  EXPECT_THAT(facts, Contains(Pair("utmaldg", Ge(2))));
  EXPECT_THAT(facts, Not(Contains(Key("hgmma_f16"))));
  EXPECT_THAT(facts, Not(Contains(Key("stl"))));
  EXPECT_FALSE((*disassembler)->run("no cubin").ok());
  EXPECT_TRUE((*disassembler)->run(compiled.cubin).ok());
}

}  // namespace
}  // namespace lathe::cuda
