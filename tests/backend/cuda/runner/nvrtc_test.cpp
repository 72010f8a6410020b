#include "backend/cuda/runner/nvrtc.h"

#include <gmock/gmock.h>

namespace lathe::cuda {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kScale = R"(
extern "C" __global__ void scale(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = FACTOR * x[i];
}
)";

class NvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc_.ok()) GTEST_SKIP() << "no NVRTC: " << nvrtc_.error().to_string();
  }
  const Result<Nvrtc> nvrtc_ = Nvrtc::open();
};

TEST_F(NvrtcTest, CompilesForEveryArchitectureThatLatheNames) {
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    SCOPED_TRACE(arch);
    const Compiled compiled = nvrtc_->compile(kScale, {std::string("-arch=") + arch, "-DFACTOR=2.0f"});
    ASSERT_TRUE(compiled.ok) << compiled.log;
    EXPECT_THAT(compiled.cubin, StartsWith("\x7f"
                                           "ELF"));
    EXPECT_THAT(compiled.cubin, HasSubstr("scale"));
    EXPECT_GT(compiled.seconds, 0);
  }
}

TEST_F(NvrtcTest, AnErrorNamesItsLine) {
  const Compiled compiled = nvrtc_->compile(kScale, {"-arch=sm_90a"});
  EXPECT_FALSE(compiled.ok);
  EXPECT_TRUE(compiled.cubin.empty());
  EXPECT_THAT(compiled.log, HasSubstr("candidate.cu(4): error: identifier \"FACTOR\" is undefined"));
}

TEST_F(NvrtcTest, AnUnknownArchitectureIsACompileError) {
  const Compiled compiled = nvrtc_->compile(kScale, {"-arch=sm_12", "-DFACTOR=2.0f"});
  EXPECT_FALSE(compiled.ok);
}

}  // namespace
}  // namespace lathe::cuda
