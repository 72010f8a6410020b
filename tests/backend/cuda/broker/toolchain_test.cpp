#include "backend/cuda/broker/toolchain.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <future>

#include "backend/cuda/runner/nvrtc.h"
#include "backend/installation.h"
#include "candidate/candidate.h"

namespace lathe::cuda {
namespace {

using testing::HasSubstr;

class CudaToolchain : public testing::Test {
 protected:
  void SetUp() override {
    if (!Nvrtc::open().ok()) GTEST_SKIP() << "no NVRTC";
    const auto program = find_program("", "lathe-cuda-runner");
    ASSERT_TRUE(program.ok()) << program.error().to_string();
    cache_ = testing::TempDir() + "lathe-cuda-toolchain" + std::to_string(::getpid());
    std::filesystem::remove_all(cache_);
    auto toolchain = Toolchain::create({*program, LATHE_SOURCE_DIR "/device", cache_, "sm_90a"});
    ASSERT_TRUE(toolchain.ok()) << toolchain.error().to_string();
    toolchain_ = *std::move(toolchain);
  }
  void TearDown() override { std::filesystem::remove_all(cache_); }

  BuildResult build(const std::string& source) {
    auto built = toolchain_->build(source, {});
    if (built.ok()) return *std::move(built);
    ADD_FAILURE() << built.error().to_string();
    return {};
  }

  std::string cache_;
  std::unique_ptr<Toolchain> toolchain_;
};

TEST_F(CudaToolchain, ASourceThatTakesTooMuchMemoryFailsAloneAndQuickly) {
  auto greedy = std::async(std::launch::async, [&] {
    return build(
        "__constant__ char big[3000000000] = {1};\n"
        "extern \"C\" __global__ void f(char* y) { y[0] = big[threadIdx.x]; }");
  });
  EXPECT_TRUE(build("extern \"C\" __global__ void f(char* y) { y[0] = 1; }").ok);
  const BuildResult result = greedy.get();
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.outcome, Outcome::kBuildFailed);
  EXPECT_EQ(result.reason, "compile_error");
  EXPECT_THAT(result.facts.log, HasSubstr("the compiler died of this source"));
  EXPECT_TRUE(build("extern \"C\" __global__ void g(char* y) { y[0] = 2; }").ok) << "the worker lives on";
}

TEST_F(CudaToolchain, AKernelOfTheProcessorIsToldSo) {
  const BuildResult result = build("#include <lathe/cpu.h>\nextern \"C\" void f(float* y) { y[0] = 1; }");
  EXPECT_EQ(result.reason, "compile_error");
  EXPECT_THAT(result.facts.log, testing::StartsWith("hint: <lathe/cpu.h> is for kernels of the processor"));
}

TEST_F(CudaToolchain, DimsThatAreCompiledInMayHaveTheNamesThatHeadersUse) {
  Dims dims;
  for (const char* name : {"M", "N", "K", "R", "n", "x", "rows", "cols", "count", "lanes", "stride"})
    dims[name] = 8;
  const BuildResult result = build(with_constants(
      "#define LATHE_TEAM 128\n#define LATHE_VECTOR 4\n#include <lathe/cuda.cuh>\n"
      "extern \"C\" __global__ void f(float* y) { y[0] = lathe::max(1.0f * N * rows, y[1]); }\n",
      dims));
  EXPECT_TRUE(result.ok) << result.facts.log;
}

TEST_F(CudaToolchain, ACandidateCannotAskWhichFilesTheMachineHas) {
  const std::string source = LATHE_SOURCE_DIR "/tests/backend/cuda/broker/toolchain_test.cpp";
  ASSERT_TRUE(std::filesystem::exists(source));
  for (const std::string& path : {source, std::string("/etc/passwd"), std::string("/proc/self/status"),
                                  std::string("/usr/include/stdio.h"), std::string("/usr/lib/os-release")}) {
    const BuildResult result = build("#if __has_include(\"" + path + "\")\n#error it exists\n#endif\n" +
                                     "#include <lathe/cuda.cuh>\nextern \"C\" __global__ void f() {}");
    EXPECT_TRUE(result.ok) << path << ": " << result.facts.log;
  }
}

}  // namespace
}  // namespace lathe::cuda
