#include <dlfcn.h>
#include <gmock/gmock.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "baseline/compose.h"
#include "candidate/launch_program.h"
#include "candidate/vendor.h"
#include "tests/baseline/graph_case.h"

namespace lathe {
namespace {

/// liblathe_vendor.so, opened as a runner opens it: the number of its worker threads is in the
/// environment.
struct VendorLibrary {
  explicit VendorLibrary(int threads) {
    setenv("OPENBLAS_NUM_THREADS", std::to_string(threads).c_str(), 1);
    setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
    void* library = dlopen(LATHE_VENDOR_PATH, RTLD_NOW);
    if (!library) return;
    prepare = reinterpret_cast<decltype(prepare)>(dlsym(library, "lathe_vendor_prepare"));
    execute = reinterpret_cast<decltype(execute)>(dlsym(library, "lathe_vendor_execute"));
    release = reinterpret_cast<decltype(release)>(dlsym(library, "lathe_vendor_release"));
  }
  decltype(&lathe_vendor_prepare) prepare = nullptr;
  decltype(&lathe_vendor_execute) execute = nullptr;
  decltype(&lathe_vendor_release) release = nullptr;
};

/// Every library call of a plan, prepared, with memory for its buffers.
class PreparedCalls {
 public:
  PreparedCalls(const GraphCase& graph_case, std::string_view library, int threads) : vendor_(threads) {
    const TaskSpec task = make_task(graph_case);
    const auto bound = lathe::bind(task, task.shapes[0].dims);
    const auto candidate = compose_candidate(task, vendor_groups(task, library), "peer");
    const auto program = compile_plan(*candidate, *bound, {});
    for (const BoundStep& step : program->steps)
      if (step.kind == PlanStep::Kind::kNode) prepare(step, threads);
  }
  PreparedCalls(const PreparedCalls&) = delete;
  PreparedCalls& operator=(const PreparedCalls&) = delete;
  ~PreparedCalls() {
    for (const Call& call : calls_) vendor_.release(call.handle);
  }

  std::size_t size() const { return calls_.size(); }
  /// Whether all calls ran.
  bool run() const {
    for (const Call& call : calls_)
      if (vendor_.execute(call.handle, call.buffers.data()) != 0) return false;
    return true;
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Call {
    lathe_vendor_call* handle;
    std::vector<void*> buffers;
  };

  void prepare(const BoundStep& step, int threads) {
    lathe_vendor_error error;
    lathe_vendor_call* handle = vendor_.prepare(step.node_text.c_str(), threads, &error);
    if (!handle) return;
    Call call{handle, std::vector<void*>(step.args.size())};
    constexpr std::size_t kPlenty = 2 << 20;
    for (void*& buffer : call.buffers) {
      buffer = std::aligned_alloc(64, kPlenty);
      memory_.emplace_back(buffer);
      std::fill_n(static_cast<float*>(buffer), kPlenty / sizeof(float), 0.5f);
    }
    calls_.push_back(std::move(call));
  }

  VendorLibrary vendor_;
  std::vector<Call> calls_;
  std::vector<std::unique_ptr<void, Free>> memory_;
};

/// From here on any system call but these kills the process.
bool lock_down() {
  const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
  bool ok = filter != nullptr;
  for (const int call : {SCMP_SYS(futex), SCMP_SYS(exit_group)})
    ok = ok && seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0) == 0;
  return ok && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && seccomp_load(filter) == 0;
}

enum Exit { kRan, kNotLocked, kFailed };

/// Runs `body` in a child: its exit status, or minus the signal that ended it.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

class VendorLockdown : public testing::TestWithParam<std::string_view> {};

TEST_P(VendorLockdown, ExecuteMakesNoSystemCall) {
  std::vector<GraphCase> cases = vendor_cases();
  cases.insert(cases.end(), op_cases().begin(), op_cases().end());
  cases.push_back({"large_gemm",
                   {"x: M, K", "w: K, N", "b: N"},
                   "h = matmul(x, w)\ny = bias_add(h, b)",
                   "M = 700, N = 701, K = 702"});
  cases.push_back({"large_conv",
                   {"x: N, C, H, W", "w: O, C, K, K"},
                   "y = conv2d(x, w, padding = 1)",
                   "N = 2, C = 64, H = 56, W = 55, O = 65, K = 3"});
  int tried = 0;
  for (const GraphCase& graph_case : cases) {
    const TaskSpec task = make_task(graph_case);
    const std::size_t groups = vendor_groups(task, GetParam()).size();
    if (groups == 0 || !computes_here(task, GetParam())) continue;
    ++tried;
    const int status = in_child([&]() -> int {
      const PreparedCalls calls(graph_case, GetParam(), 1);
      if (calls.size() != groups) return kFailed;
      if (!lock_down()) return kNotLocked;
      for (int i = 0; i < 3; ++i)
        if (!calls.run()) return kFailed;
      _exit(kRan);
    });
    EXPECT_EQ(status, kRan) << graph_case.name;
  }
  EXPECT_GT(tried, 5);
}

TEST(VendorLockdownCheck, CatchesASystemCall) {
  EXPECT_EQ(in_child([]() -> int {
              if (!lock_down()) return kNotLocked;
              return static_cast<int>(getppid());
            }),
            -SIGSYS);
}

INSTANTIATE_TEST_SUITE_P(Libraries, VendorLockdown, testing::Values("openblas", "onednn"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(VendorCall, SaysWhyItCannotBePrepared) {
  const VendorLibrary vendor(1);
  const auto error_of = [&](const std::string& json) -> std::string {
    lathe_vendor_error error;
    EXPECT_EQ(vendor.prepare(json.c_str(), 1, &error), nullptr);
    return error.text;
  };
  const nlohmann::json vector = {{"buffer", 0}, {"shape", {4}}, {"dtype", "fp32"}};
  nlohmann::json call = {{"library", "onednn"}};
  call["nodes"] = {{{"op", "cumsum"}, {"in", {vector}}, {"out", vector}}};
  EXPECT_THAT(error_of("{"), testing::HasSubstr("JSON"));
  EXPECT_THAT(error_of(call.dump()), testing::HasSubstr("cumsum"));
  call["library"] = "mkl";
  EXPECT_THAT(error_of(call.dump()), testing::HasSubstr("mkl"));
}

TEST(VendorCall, RunsOnSeveralThreads) {
  const int status = in_child([]() -> int {
    for (const GraphCase& graph_case : vendor_cases())
      for (const std::string_view library : vendor_libraries())
        if (!PreparedCalls(graph_case, library, 2).run()) return kFailed;
    _exit(kRan);
  });
  EXPECT_EQ(status, kRan);
}

}  // namespace
}  // namespace lathe
