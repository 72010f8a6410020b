#include "library/export.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/fd.h"
#include "record/json.h"

namespace lathe {
namespace {

using testing::HasSubstr;

constexpr const char* kTask = R"(name = "shift"
dims = { n = [1, 4096], m = [1, 64] }
where = "n % 4 == 0"
tensor = [{ name = "alpha", role = "scalar" }, { name = "x", shape = ["n", "m"] }]
graph = """
t = mul(x, alpha)
y = relu(t)
"""
[[shape]]
name = "a"
n = 64
m = 8
[[shape]]
name = "b"
n = 32
m = 16
)";

/// Uses every feature of a plan: constants, a narrowed domain, zeroed scratch, a loop, a condition,
/// facts, integer and scalar arguments. y ends as max(alpha * x, 0) + 3, once for each of the
/// loop's steps 0, 1, 2.
constexpr const char* kKernel = R"(/*lathe
requires  = "n / (m - 4) > 0"
constants = ["m"]
[[scratch]]
name  = "count"
bytes = "4 * n * threads"
init  = "zero"
[[launch]]
kernel = "add_one"
items  = "n"
args   = ["count", "k", "cdiv(n, 4) * 4", "l2_bytes"]
repeat = "4"
index  = "k"
when   = "k < 3 && n / (k + 1) > 0"
[[launch]]
kernel = "finish"
items  = "n"
args   = ["x", "count", "alpha", "y", "m"]
*/
#include <lathe/cpu.h>

static float helper(float value) { return value > 0 ? value : 0; }

extern "C" void add_one(float* count, int64_t k, int64_t rounded, int64_t l2, int64_t begin, int64_t end) {
  if (rounded != 64 && rounded != 32) return;
  if (k > 2 || l2 != 1048576) return;
  for (int64_t i = begin; i < end; ++i) count[i] += 1;
}
extern "C" void finish(const float* x, const float* count, float alpha, float* y, int64_t cols, int64_t begin,
                       int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < m; ++j) y[i * m + j] = helper(alpha * x[i * m + j]) + count[i] + (cols - m);
}
)";

class Export : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    auto task = parse_task(kTask, "shift.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    task_ = *task;
    use(kKernel);
  }
  void use(const std::string& text) {
    auto candidate = parse_candidate(text, "kernel");
    ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
    candidate_ = *candidate;
    verdict_.outcome = Outcome::kPass;
    verdict_.reason = "ok";
    verdict_.candidate = candidate_.digest;
    verdict_.speedups = {{.baseline = "naive", .shape = "n=64,m=8", .ratio = {1.9, 2, 2.1}}};
  }
  ExportRequest request() const {
    return {.task = &task_,
            .candidate = &candidate_,
            .verdict = &verdict_,
            .device = "a test machine",
            .facts = {{"l2_bytes", 1 << 20}, {"threads", 1}},
            .device_headers = std::string(LATHE_SOURCE_DIR) + "/device"};
  }
  Error refusal() const {
    const Status status = export_kernel(request(), folder_);
    EXPECT_FALSE(status.ok());
    return status.ok() ? Error{} : status.error();
  }

  const std::string folder_ = std::string(LATHE_BINARY_DIR) + "/export_test/" +
                              testing::UnitTest::GetInstance()->current_test_info()->name();
  TaskSpec task_;
  Candidate candidate_;
  Verdict verdict_;
};

struct Parallel {
  std::int64_t threads;
  void* context;
  void (*run)(void*, std::int64_t, void (*)(void*, std::int64_t, std::int64_t), void*);
};
using Workspace = std::int64_t (*)(std::int64_t n, std::int64_t m, const Parallel*);
using Kernel = int (*)(float alpha, const float* x, float* y, std::int64_t n, std::int64_t m, void*,
                       const Parallel*);

/// Compiles the package and opens it; closed when the test ends.
struct Loaded {
  explicit Loaded(const std::string& folder) {
    const std::string library = folder + "/shift.so";
    const std::string command = "cd '" + folder +
                                "' && g++ -std=c++20 -O1 -march=native -Wall -Wextra -Wshadow -Werror -fPIC "
                                "-shared -Iinclude -Idevice -o '" +
                                library + "' src/dispatch.cpp src/kernel_*.cpp";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return;
    workspace_bytes = reinterpret_cast<Workspace>(::dlsym(handle, "lathe_shift_workspace_bytes"));
    kernel = reinterpret_cast<Kernel>(::dlsym(handle, "lathe_shift"));
  }
  Loaded(const Loaded&) = delete;
  ~Loaded() {
    if (handle) ::dlclose(handle);
  }
  void* handle = nullptr;
  Workspace workspace_bytes = nullptr;
  Kernel kernel = nullptr;
};

TEST_F(Export, DispatchesAPlanWithEveryFeature) {
  ASSERT_TRUE(export_kernel(request(), folder_).ok());
  const Loaded loaded(folder_);
  const auto [workspace_bytes, kernel] = std::tuple(loaded.workspace_bytes, loaded.kernel);
  ASSERT_TRUE(workspace_bytes && kernel);

  static int shares = 0;
  const Parallel parallel = {3, nullptr, [](void*, std::int64_t items, auto body, void* state) {
                               for (std::int64_t i = 0; i < items; i += 5, ++shares)
                                 body(state, i, std::min(items, i + 5));
                             }};
  alignas(64) float x[64 * 8], y[64 * 8], workspace[3 * 64];
  for (int i = 0; i < 64 * 8; ++i) x[i] = static_cast<float>(i % 7 - 3);
  for (const auto& [n, m] : {std::pair(64, 8), std::pair(32, 16)}) {
    for (const Parallel* p : {static_cast<const Parallel*>(nullptr), &parallel}) {
      EXPECT_EQ(workspace_bytes(n, m, p), 4 * n * (p ? 3 : 1));
      std::fill(std::begin(workspace), std::end(workspace), 1e9f);
      ASSERT_EQ(kernel(2, x, y, n, m, workspace, p), 0);
      for (int i = 0; i < n * m; ++i) ASSERT_EQ(y[i], std::max(2 * x[i], 0.0f) + 3) << i;
    }
  }
  EXPECT_GT(shares, 0);

  constexpr int kOutside = 1, kNoWorkspace = 2, kMisaligned = 3;
  EXPECT_EQ(kernel(2, x, y, 63, 8, workspace, nullptr), kOutside) << "the task's where";
  EXPECT_EQ(kernel(2, x, y, 64, 9, workspace, nullptr), kOutside) << "no such constant";
  EXPECT_EQ(kernel(2, x, y, 64, 4, workspace, nullptr), kOutside) << "requires divides by zero";
  EXPECT_EQ(kernel(2, x, y, -64, 8, workspace, nullptr), kOutside);
  EXPECT_EQ(kernel(2, x, y, std::int64_t{1} << 62, 8, workspace, nullptr), kOutside) << "workspace overflows";
  EXPECT_EQ(workspace_bytes(63, 8, nullptr), -1);
  EXPECT_EQ(kernel(2, x, y, 64, 8, nullptr, nullptr), kNoWorkspace);
  EXPECT_EQ(kernel(2, x + 1, y, 64, 8, workspace, nullptr), kMisaligned);
}

constexpr const char* kHalfTask = R"(name = "shift"
dims = { n = [1, 4096] }
tensor = [{ name = "alpha", role = "scalar", dtype = "fp16" }, { name = "x", shape = ["n"], dtype = "fp16" },
          { name = "b", shape = ["n"], dtype = "bf16" }]
graph = """
t = mul(x, alpha)
u = cast(t, dtype = "bf16")
y = add(u, b)
"""
shape = [{ n = 64 }]
)";
constexpr const char* kHalfKernel = R"(/*lathe
[[launch]]
kernel = "f"
items  = "n"
args   = ["alpha", "x", "b", "y"]
*/
#include <lathe/cpu.h>

extern "C" void f(lathe::half alpha, const lathe::half* x, const lathe::bfloat16* b, lathe::bfloat16* y,
                  int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = lathe::half(alpha * x[i]) + b[i];
}
)";

/// Exports a kernel of 16-bit numbers, one of them a scalar, builds it with `compiler`, and calls
/// it from a C program that knows the header alone.
class ExportOfHalves : public Export {
 protected:
  void SetUp() override {
    Export::SetUp();
    const auto task = parse_task(kHalfTask, "shift.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    task_ = *task;
    use(kHalfKernel);
    ASSERT_TRUE(export_kernel(request(), folder_).ok());
  }
  int run(const std::string& compiler) const {
    constexpr const char* kProgram = R"(#include "lathe_shift.h"
_Alignas(64) static uint16_t x[64], b[64], y[64];
int main(void) {
  int i;
  for (i = 0; i < 64; ++i) x[i] = 0x4200, b[i] = 0x3f80; /* 3 and 1 */
  if (lathe_shift(0x3800, x, b, y, 64, 0, 0) != LATHE_OK) return 1;
  for (i = 0; i < 64; ++i) if (y[i] != 0x4020) return 2; /* 0.5 * 3 + 1 */
  return 0;
}
)";
    EXPECT_TRUE(write_file_atomically(folder_ + "/program.c", kProgram).ok());
    return std::system(
        ("cd '" + folder_ + "' && " + compiler +
         " -std=c++20 -O1 -march=native -Iinclude -Idevice -c src/dispatch.cpp src/kernel_*.cpp && "
         "cc -std=c11 -Wall -Wextra -pedantic-errors -Werror -Iinclude -o program program.c *.o && "
         "./program")
            .c_str());
  }
};

TEST_F(ExportOfHalves, AreCalledFromPlainC) { EXPECT_EQ(run("g++"), 0); }

TEST_F(ExportOfHalves, NeedNoCompilerThatKnowsThem) {
  EXPECT_EQ(run("g++ -U__FLT16_MANT_DIG__"), 0);
  if (std::system("command -v clang++ >/dev/null") == 0) {
    EXPECT_EQ(run("clang++"), 0);
  }
}

TEST_F(Export, AFallbackServesTheRestOfTheDomain) {
  const auto fallback = parse_candidate(
      "/*lathe\n[[launch]]\nkernel = \"finish\"\nitems = \"n\"\nargs = [\"x\", \"alpha\", \"y\", \"m\"]\n*/\n"
      "#include <lathe/cpu.h>\n"
      "static float helper(float value) { return value > 0 ? value : 0; }\n"
      "extern \"C\" void finish(const float* x, float alpha, float* y, int64_t cols, int64_t begin, int64_t "
      "end) { for (int64_t i = begin * cols; i < end * cols; ++i) y[i] = helper(alpha * x[i]) + 7; }\n",
      "fallback");
  ASSERT_TRUE(fallback.ok()) << fallback.error().to_string();
  ExportRequest wanted = request();
  wanted.fallback = &*fallback;
  ASSERT_TRUE(export_kernel(wanted, folder_).ok());
  const Loaded loaded(folder_);
  ASSERT_TRUE(loaded.workspace_bytes && loaded.kernel);
  alignas(64) float x[64 * 16], y[64 * 16], workspace[64];
  for (int i = 0; i < 64 * 16; ++i) x[i] = static_cast<float>(i % 7 - 3);
  EXPECT_EQ(loaded.workspace_bytes(64, 8, nullptr), 256);
  EXPECT_EQ(loaded.workspace_bytes(64, 9, nullptr), 0) << "the fallback has no scratch";
  EXPECT_EQ(loaded.workspace_bytes(63, 8, nullptr), -1) << "not in the task's domain";
  ASSERT_EQ(loaded.kernel(2, x, y, 64, 8, workspace, nullptr), 0);
  EXPECT_EQ(y[5], 2 * x[5] + 3) << "the kernel";
  ASSERT_EQ(loaded.kernel(2, x, y, 64, 9, nullptr, nullptr), 0);
  EXPECT_EQ(y[5], 2 * x[5] + 7) << "the fallback";
  EXPECT_EQ(loaded.kernel(2, x, y, 63, 8, workspace, nullptr), 1);
  EXPECT_EQ(loaded.kernel(2, x + 1, y, 64, 9, workspace, nullptr), 3);
  wanted.fallback = &candidate_;
  EXPECT_THAT(export_kernel(wanted, folder_).error().message, HasSubstr("whole domain"));
}

TEST_F(Export, WritesEvidenceAndAReadme) {
  ASSERT_TRUE(export_kernel(request(), folder_).ok());
  const auto evidence = parse_json(*read_file(folder_ + "/evidence.json"), "evidence");
  ASSERT_TRUE(evidence.ok());
  EXPECT_EQ((*evidence)["schema"], "lathe.evidence/1");
  EXPECT_EQ((*evidence)["candidate_digest"], candidate_.digest.hex());
  EXPECT_TRUE(verdict_from_json((*evidence)["verdict"]).ok());
  const auto& interface = (*evidence)["interface"];
  EXPECT_EQ(interface["dims"], nlohmann::json({"n", "m"}));
  EXPECT_EQ(interface["parameters"],
            nlohmann::json::parse(R"([{"name": "alpha", "role": "scalar", "dtype": "fp32", "shape": []},
                                      {"name": "x", "role": "input", "dtype": "fp32", "shape": ["n", "m"]},
                                      {"name": "y", "role": "output", "dtype": "fp32", "shape": ["n", "m"]}])"));
  EXPECT_THAT(*read_file(folder_ + "/lathe_shiftConfig.cmake"),
              HasSubstr(interface["flags"].get<std::string>()));
  const std::string readme = *read_file(folder_ + "/README.md");
  EXPECT_THAT(readme, HasSubstr("compiled for m=8 or m=16"));
  EXPECT_THAT(readme, HasSubstr("| naive | 2.00 | 1.90 to 2.10 |"));
  EXPECT_EQ(*read_file(folder_ + "/src/shift.lathe.cpp"), kKernel) << "the candidate, byte for byte";
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/device/lathe/cpu.h"));
}

TEST_F(Export, MayBeRepeatedButNeverIntoAFolderOfSomethingElse) {
  ASSERT_TRUE(export_kernel(request(), folder_).ok());
  EXPECT_TRUE(export_kernel(request(), folder_).ok());
  std::filesystem::remove(folder_ + "/evidence.json");
  EXPECT_THAT(refusal().message, HasSubstr("not empty"));
}

TEST_F(Export, ReplacesAnEarlierOneAndNothingElse) {
  ExportRequest first = request();
  first.name = "other";
  ASSERT_TRUE(export_kernel(first, folder_).ok());
  ASSERT_TRUE(write_file_atomically(folder_ + "/src/mine.cpp", "// mine").ok());
  ASSERT_TRUE(export_kernel(request(), folder_).ok());
  for (const char* gone : {"/lathe_otherConfig.cmake", "/include/lathe_other.h", "/src/other.lathe.cpp",
                           "/.lathe-export.partial"})
    EXPECT_FALSE(std::filesystem::exists(folder_ + gone)) << gone;
  for (const char* there : {"/lathe_shiftConfig.cmake", "/include/lathe_shift.h", "/src/mine.cpp"})
    EXPECT_TRUE(std::filesystem::exists(folder_ + there)) << there;
}

TEST_F(Export, MayFollowOneThatWasKilled) {
  ASSERT_TRUE(make_directories(folder_ + "/.lathe-export.partial/src").ok());
  EXPECT_TRUE(export_kernel(request(), folder_).ok());
}

TEST_F(Export, LeavesNothingWhereItCouldNotBeWrittenWhole) {
  ExportRequest incomplete = request();
  incomplete.device_headers = folder_ + "-missing";
  EXPECT_FALSE(export_kernel(incomplete, folder_ + "/new").ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/new"));
  ASSERT_TRUE(export_kernel(request(), folder_ + "/new").ok());
  EXPECT_FALSE(export_kernel(incomplete, folder_ + "/new").ok());
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/new/evidence.json")) << "an earlier export stays";
}

TEST_F(Export, RefusesAKernelThatDidNotPassOrAnothersVerdict) {
  verdict_.outcome = Outcome::kSuspect;
  EXPECT_THAT(refusal().message, HasSubstr("SUSPECT"));
  verdict_.outcome = Outcome::kPass;
  verdict_.candidate = digest_of("another");
  EXPECT_THAT(refusal().message, HasSubstr("not this candidate's"));
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(Export, RefusesLibraryCallsItCannotCarry) {
  use("/*lathe\n[[node]]\nlibrary = \"onednn\"\nnodes = [\"t\", \"y\"]\n*/\n");
  const Error error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("onednn"));
}

TEST_F(Export, RefusesAKernelOfAGpu) {
  use("/*lathe\n[[tma]]\nname = \"map\"\nbase = \"x\"\ndims = [\"m\", \"n\"]\nbox = [4, 4]\n"
      "[[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [32]\nargs = [\"map\", \"y\"]\n*/\n");
  const Error error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("'k' is launched on a GPU"));
  EXPECT_THAT(error.hint, HasSubstr("lathe build"));
}

TEST_F(Export, RefusesANameThatIsNoIdentifierAndAFactItDoesNotKnow) {
  ExportRequest wanted = request();
  wanted.name = "soft-max";
  EXPECT_THAT(export_kernel(wanted, folder_).error().message, HasSubstr("soft-max"));
  wanted = request();
  wanted.facts.clear();
  EXPECT_THAT(export_kernel(wanted, folder_).error().message, HasSubstr("l2_bytes"));
}

}  // namespace
}  // namespace lathe
