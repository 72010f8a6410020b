#include "backend/cpu/toolchain.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "backend/installation.h"
#include "candidate/candidate.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKernel = R"(#include <lathe/cpu.h>
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + SHIFT;
})";

/// One tool chain for all cases, with a cache of its own, because precompiling its header takes
/// seconds.
class ToolchainTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = testing::TempDir() + "lathe-toolchain-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);  // jailed compilers are nobody
    auto made = Toolchain::create({*find_program("", "lathe-runner"), *device_header_folder(), cache()});
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    toolchain_ = std::move(*made).release();
  }
  static void TearDownTestSuite() {
    delete toolchain_;
    fs::remove_all(folder_);
  }

  static std::string cache() { return folder_ + "/cache"; }
  /// Another number is another object, which no cache has.
  static std::string build(int shift) {
    const auto built = toolchain_->build(with_constants(kKernel, {{"SHIFT", shift}}), {});
    if (!built.ok()) return built.error().to_string();
    return built->ok ? "built" : built->reason + ": " + built->facts.log;
  }
  static std::string header_folder() {
    for (const auto& entry : fs::directory_iterator(cache()))
      if (entry.path().filename().string().starts_with("include-")) return entry.path();
    return {};
  }

  static std::string folder_;
  static Toolchain* toolchain_;
};
std::string ToolchainTest::folder_;
Toolchain* ToolchainTest::toolchain_ = nullptr;

TEST_F(ToolchainTest, VariablesOfTheUserChangeNothing) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nonexistent", 1);
  ::setenv("GCC_EXEC_PREFIX", "/nonexistent/", 1);
  const auto made = Toolchain::create({*find_program("", "lathe-runner"), *device_header_folder(), cache()});
  ::setenv("PATH", path.c_str(), 1);
  ::unsetenv("GCC_EXEC_PREFIX");
  ASSERT_TRUE(made.ok()) << made.error().to_string();
}

TEST_F(ToolchainTest, ACacheThatIsDeletedIsMadeAnew) {
  EXPECT_EQ(build(1), "built");
  fs::remove_all(cache());
  EXPECT_EQ(build(2), "built");
  EXPECT_EQ(build(1), "built");
}

TEST_F(ToolchainTest, ACacheWithoutRoomSaysSo) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const auto made =
      Toolchain::create({*find_program("", "lathe-runner"), *device_header_folder(), folder_ + "/full"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_DFL);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().hint.find("LATHE_CACHE"), std::string::npos) << made.error().to_string();
}

TEST_F(ToolchainTest, HeadersThatAreDamagedAreNotTheCandidatesFault) {
  EXPECT_EQ(build(3), "built");
  for (const char* name : {"/lathe/cpu.h", "/lathe/cpu.h.gch"})
    ASSERT_TRUE(write_file_atomically(header_folder() + name, "#error damaged\n").ok());
  EXPECT_EQ(build(4), "built");
}

TEST_F(ToolchainTest, ACandidateCannotAskWhichFilesTheMachineHas) {
  const std::string private_file = folder_ + "/private.h";
  ASSERT_TRUE(write_file_atomically(private_file, "").ok());
  for (const std::string& path : {private_file, std::string("/etc/passwd"), std::string("/proc/self/status"),
                                  std::string("/proc/cpuinfo"), std::string("/sys/kernel/notes")}) {
    const auto built =
        toolchain_->build("#if __has_include(\"" + path + "\")\n#error it exists\n#endif\n", {});
    ASSERT_TRUE(built.ok()) << built.error().to_string();
    EXPECT_EQ(built->facts.log.find("it exists"), std::string::npos) << path;
  }
}

TEST_F(ToolchainTest, AnErrorOfTheCandidateStaysOne) {
  const auto built = toolchain_->build("extern \"C\" void f() { nonsense; }", {});
  ASSERT_TRUE(built.ok()) << built.error().to_string();
  EXPECT_EQ(built->reason, "compile_error");
}

TEST_F(ToolchainTest, DimsThatAreCompiledInMayHaveTheNamesThatHeadersUse) {
  Dims dims;
  for (const char* name : {"M", "N", "K", "R", "n", "x", "rows", "cols", "count", "lanes", "stride"})
    dims[name] = 8;
  const std::string kernel =
      "#include <lathe/cpu.h>\nextern \"C\" void f(float* y) { y[0] = lathe::max(1.0f * N * rows, y[1]); }\n";
  const auto built = toolchain_->build(with_constants(kernel, dims), {});
  ASSERT_TRUE(built.ok()) << built.error().to_string();
  EXPECT_TRUE(built->ok) << built->facts.log;
}

}  // namespace
}  // namespace lathe
