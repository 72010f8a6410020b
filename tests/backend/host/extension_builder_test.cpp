#include "backend/host/extension_builder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "backend/host/parts.h"
#include "base/parallel.h"

namespace lathe::host {
namespace {

using testing::HasSubstr;

constexpr const char* kKernels = R"(
#include <torch/extension.h>
__global__ void twice(const float* x, float* y, long n) {
  const long i = blockIdx.x * 256L + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
torch::Tensor doubled(torch::Tensor x) {
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  auto y = torch::empty_like(x);
  twice<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
)";

constexpr const char* kBinding =
    "torch::Tensor doubled(torch::Tensor x);\n"
    "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"doubled\", &doubled); }\n";

/// For sm_90a, without a GPU. Compiled objects stay for the tests after it.
class ExtensionBuilderTest : public testing::Test {
 protected:
  void SetUp() override {
    HostBackendOptions options;
    options.cache_folder = testing::TempDir() + "lathe-extensions";
    auto parts = find_parts(options);
    if (!parts.ok()) GTEST_SKIP() << parts.error().to_string();
    parts_ = *std::move(parts);
  }

  CompiledExtension build(const nlohmann::json& request, const std::string& arch = "sm_90a") {
    ExtensionBuilder builder(parts_.python, {.compile_program = parts_.compile_program,
                                             .cache_folder = parts_.cache_folder,
                                             .timeout_seconds = 120,
                                             .arch = arch});
    auto built = builder.build(request.dump(), {});
    EXPECT_TRUE(built.ok()) << built.error().to_string();
    return built.ok() ? *std::move(built) : CompiledExtension{};
  }

  static nlohmann::json request(const std::string& kernels, const std::string& kernel_flag = "-O3") {
    return {{"kind", "cuda"},     {"name", "mine"},
            {"source", kBinding}, {"flags", nlohmann::json::array()},
            {"kernels", kernels}, {"kernel_flags", {kernel_flag}}};
  }

  HostParts parts_;
};

/// With kernels, which nvcc compiles.
class KernelBuilderTest : public ExtensionBuilderTest {
 protected:
  void SetUp() override {
    ExtensionBuilderTest::SetUp();
    if (!std::filesystem::exists("/usr/local/cuda/bin/nvcc")) GTEST_SKIP() << "no nvcc";
  }
};

TEST_F(ExtensionBuilderTest, SourcesOfTensorsAloneMayDoWhatTensorsCan) {
  const auto bound = [&](const std::string& body) {
    return build({{"kind", "cpp"},
                  {"name", "mine"},
                  {"source", "torch::Tensor f(torch::Tensor x) {\n" + body +
                                 "\n}\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"f\", &f); }\n"},
                  {"flags", nlohmann::json::array()}},
                 "");
  };
  for (const char* body :
       {"auto y = x - std::get<0>(x.max(1, true)); y.exp_(); return y.div_(y.sum(1, true));",
        "return 2 * x + x[0] * 0.5 - (-x) / x.clamp_min(1) + (x > 0).to(torch::kFloat32);",
        "std::ostringstream text; text << x; return text.str().empty() ? x : x.t();"}) {
    const CompiledExtension built = bound(body);
    EXPECT_TRUE(built.ok) << body << "\n" << built.log;
  }
}

TEST_F(KernelBuilderTest, KernelsAreCompiledBesideTheirBinding) {
  const CompiledExtension built = build(request(kKernels, "-gencode=arch=compute_50,code=sm_50"));
  ASSERT_TRUE(built.ok) << built.log;
  EXPECT_THAT(built.object, HasSubstr("sm_90a"));
  EXPECT_THAT(built.object, HasSubstr("PyInit_mine"));
}

TEST_F(KernelBuilderTest, AnErrorInAKernelSaysWhere) {
  const CompiledExtension built = build(request("__global__ void f() {\n  no_such_name = 1;\n}\n"));
  EXPECT_FALSE(built.ok);
  EXPECT_EQ(built.reason, "compile_error");
  EXPECT_THAT(built.log, HasSubstr("mine.cu(2)"));
}

/// torch's macro tells which of its headers there are.
constexpr const char* kSaysWhich =
    "#include <torch/extension.h>\n"
    "#ifdef TORCH_LIBRARY\n#define HEADERS more\n#else\n#define HEADERS few\n#endif\n"
    "#define QUOTED(x) #x\n#define QUOTE(x) QUOTED(x)\n";

TEST_F(KernelBuilderTest, ErrorsThatNoHeaderMendsAreFoundOnce) {
  const CompiledExtension built =
      build(request(std::string(kSaysWhich) + "static_assert(sizeof(int) == 3, QUOTE(HEADERS));\n"));
  EXPECT_EQ(built.reason, "compile_error");
  EXPECT_THAT(built.log, HasSubstr("few"));
}

TEST_F(KernelBuilderTest, KernelsThatNeedMoreOfTorchGetMoreOfIt) {
  const CompiledExtension by_a_macro =
      build(request("#include <torch/extension.h>\n#define LIBRARY torch\n"
                    "torch::Tensor doubled(torch::Tensor x) { return LIBRARY::cat({x, x}); }\n"));
  EXPECT_TRUE(by_a_macro.ok) << by_a_macro.log;
  const CompiledExtension by_its_argument =
      build(request("#include <torch/extension.h>\n"
                    "torch::Tensor doubled(torch::Tensor x) { return softmax(x, 0); }\n"));
  EXPECT_TRUE(by_its_argument.ok) << by_its_argument.log;
}

TEST_F(KernelBuilderTest, WhatReachesBeyondTheSourceIsRefused) {
  for (const char* flag :
       {"-I/etc", "--compiler-bindir=/tmp", "-Xcompiler=-fplugin=x", "@file", "-o", "-run"})
    EXPECT_EQ(build(request(kKernels, flag)).reason, "bad_extension") << flag;
  EXPECT_EQ(build(request("#include \"/etc/passwd\"\n")).reason, "compile_error");
}

TEST_F(KernelBuilderTest, WithoutAGpuThereAreNoKernels) {
  EXPECT_EQ(build(request(kKernels), "").reason, "bad_extension");
}

TEST_F(ExtensionBuilderTest, WhatSeveralShapesAskForAtOnceIsCompiledOnce) {
  ExtensionBuilder builder(parts_.python, {.compile_program = parts_.compile_program,
                                           .cache_folder = parts_.cache_folder,
                                           .timeout_seconds = 120});
  const nlohmann::json request = {{"kind", "c"},
                                  {"name", "one"},
                                  {"source", fmt::format("int one(void) {{ return {}; }}", ::getpid())},
                                  {"flags", nlohmann::json::array()}};
  std::atomic<int> compiled = 0;
  const Status all = for_each_index(5, 5, [&](int) -> Status {
    LATHE_TRY(const CompiledExtension made, builder.build(request.dump(), {}));
    EXPECT_TRUE(made.ok) << made.log;
    EXPECT_FALSE(made.object.empty());
    compiled += made.seconds > 0;
    return Ok{};
  });
  ASSERT_TRUE(all.ok()) << all.error().to_string();
  EXPECT_EQ(compiled, 1);
}

}  // namespace
}  // namespace lathe::host
