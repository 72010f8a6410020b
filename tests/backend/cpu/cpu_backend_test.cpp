#include "backend/cpu/cpu_backend.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "backend/cpu/imports.h"
#include "backend/cpu/session.h"
#include "base/clock.h"
#include "candidate/candidate.h"
#include "task/spec.h"
#include "tests/candidate/documented_candidates.h"

namespace lathe {
namespace {

constexpr const char* kDoubleTask = R"(
name = "twice"
dims = ["n"]
[[tensor]]
name = "x"
shape = ["n"]
[[node]]
out = "y"
op = "add"
in = ["x", "x"]
[[output]]
name = "y"
[[shape]]
name = "small"
n = 1000
)";

std::string candidate_text(const std::string& body) {
  return "/*lathe\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"x\", \"y\", \"n\"]\n*/\n#include "
         "<lathe/cpu.h>\n" +
         body;
}

constexpr const char* kRight = R"(
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + x[i];
})";

bool descends_from_this_process(int pid) {
  while (pid > 1 && pid != ::getpid()) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    int parent = 0;
    for (std::string word; status >> word;)
      if (word == "PPid:") status >> parent;
    pid = parent;
  }
  return pid == ::getpid();
}

/// The names of what a process has mapped writable and shared with others, of the descendant that
/// runs a block's calls: the one that has outputs mapped. Empty if there is none yet.
std::multiset<std::string> shared_writable_of_block_child() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream maps(entry.path() / "maps");
    std::multiset<std::string> names;
    for (std::string line; std::getline(maps, line);) {
      std::istringstream fields(line);
      std::string range, permissions, offset, device, inode, name;
      fields >> range >> permissions >> offset >> device >> inode >> name;
      if (permissions.size() == 4 && permissions[1] == 'w' && permissions[3] == 's') names.insert(name);
    }
    const int pid = std::atoi(entry.path().filename().c_str());
    if (names.contains("/memfd:outputs") && pid != ::getpid() && descends_from_this_process(pid))
      return names;
  }
  return {};
}

/// One backend for all cases, because creating it measures the machine.
class CpuBackendTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    CpuBackendOptions options;
    options.cache_folder = testing::TempDir() + "lathe-cache";
    auto made = make_cpu_backend(options);
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    backend_ = std::move(*made).release();
    auto task = parse_task(kDoubleTask, "double.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    task_ = new TaskSpec(*task);
    auto bound = lathe::bind(*task_, task_->shapes[0].dims);
    ASSERT_TRUE(bound.ok());
    Workload workload;
    workload.task = *bound;
    const auto reference = make_reference(*task_);
    ASSERT_TRUE(reference.ok());
    for (std::uint64_t t = 0; t < 8; ++t) {
      Trial trial;
      trial.inputs = generate_inputs(*bound, Distribution::kNormal, Seed::from_number(t));
      auto expected = (*reference)->evaluate(*bound, trial.inputs, {});
      ASSERT_TRUE(expected.ok());
      trial.expected = *std::move(expected);
      workload.trials.push_back(std::move(trial));
    }
    auto prepared = backend_->prepare(std::move(workload));
    ASSERT_TRUE(prepared.ok()) << prepared.error().to_string();
    workload_ = new std::shared_ptr<const Workload>(*prepared);
  }
  static void TearDownTestSuite() {
    delete workload_;
    delete task_;
    delete backend_;
  }

  static Result<BuildResult> build(const std::string& body) {
    auto candidate = parse_candidate(candidate_text(body), "test");
    return backend_->build(*candidate, (*workload_)->task);
  }

  static BlockOutcome run(const std::string& body, double timeout_seconds = 5,
                          std::vector<int> trials = {0, 1, 2, 3}) {
    const auto candidate = parse_candidate(candidate_text(body), "test");
    const auto built = backend_->build(*candidate, (*workload_)->task);
    if (!built.ok()) return {BlockStatus::kInfra, "build", built.error().to_string()};
    if (!built->ok) return {BlockStatus::kInfra, built->reason, built->facts.log};
    auto session = backend_->open(*candidate, built->artifact, *workload_);
    if (!session.ok()) return {BlockStatus::kInfra, "open", session.error().to_string()};
    BlockRequest request;
    request.trials = std::move(trials);
    request.timeout_seconds = timeout_seconds;
    request.secret = 7;
    return (*session)->run(request);
  }

  static Backend* backend_;
  static TaskSpec* task_;
  static std::shared_ptr<const Workload>* workload_;
};
Backend* CpuBackendTest::backend_ = nullptr;
TaskSpec* CpuBackendTest::task_ = nullptr;
std::shared_ptr<const Workload>* CpuBackendTest::workload_ = nullptr;

/// Seconds until `work` returns if its token is cancelled after 100 ms.
template <class Work>
double seconds_to_cancel(Work work) {
  const CancelToken cancel;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cancel.cancel();
  });
  const auto begin = steady_clock().now_ns();
  work(cancel);
  const double seconds = static_cast<double>(steady_clock().now_ns() - begin) * 1e-9;
  canceller.join();
  return seconds;
}

/// Everything else that a candidate can write is private to its process, which ends with the block.
/// The broker clears the control page and fills these outputs, and what surrounds them, before the
/// next.
TEST_F(CpuBackendTest, ABlockSharesItsControlPageAndItsOwnOutputsAndNothingElse) {
  const std::string spins =
      "extern \"C\" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) "
      "{ for (volatile int64_t i = 0;;) i = i + 1; }";
  std::jthread block([&] { EXPECT_EQ(run(spins, 3, {2, 5}).status, BlockStatus::kTimeout); });
  std::multiset<std::string> names;
  for (int attempt = 0; names.empty() && attempt < 20000; ++attempt) {
    names = shared_writable_of_block_child();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it may still have been mapping them
  names = shared_writable_of_block_child();
  EXPECT_EQ(names, (std::multiset<std::string>{"/memfd:control", "/memfd:outputs", "/memfd:outputs"}));
}

TEST_F(CpuBackendTest, BuildsEveryCandidateThatAPageShows) {
  int count = 0;
  for (const DocumentedCandidate& shown : documented_candidates()) {
    if (shown.for_gpu) continue;
    SCOPED_TRACE(shown.place);
    const auto candidate = parse_candidate(shown.text, shown.place);
    ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
    const auto built = backend_->build(*candidate, (*workload_)->task);
    ASSERT_TRUE(built.ok()) << built.error().to_string();
    EXPECT_TRUE(built->ok) << built->reason << built->facts.log;
    ++count;
  }
  EXPECT_GE(count, 2);
}

TEST_F(CpuBackendTest, ACancelledBlockIsKilledLongBeforeItsTimeout) {
  const auto candidate = parse_candidate(candidate_text(R"(
extern "C" void f(const float*, float*, int64_t, int64_t, int64_t) { for (volatile int i = 0;; i = 1) {} })"),
                                         "test");
  const auto built = backend_->build(*candidate, (*workload_)->task);
  ASSERT_TRUE(built.ok() && built->ok);
  auto session = backend_->open(*candidate, built->artifact, *workload_);
  ASSERT_TRUE(session.ok());
  BlockOutcome outcome;
  const double seconds = seconds_to_cancel([&](const CancelToken& cancel) {
    BlockRequest request;
    request.trials = {0};
    request.timeout_seconds = 20;
    request.cancel = cancel;
    outcome = (*session)->run(request);
  });
  EXPECT_EQ(outcome.reason, "cancelled");
  EXPECT_LT(seconds, 0.6);
}

TEST_F(CpuBackendTest, ACancelledBuildKillsTheCompiler) {
  // Each level doubles the compiler's work, far beyond what it can do in 20 s.
  const auto candidate = parse_candidate(candidate_text(R"(
template <int depth, int64_t path> struct Tree {
  static constexpr int64_t value = Tree<depth - 1, 2 * path>::value + Tree<depth - 1, 2 * path + 1>::value;
};
template <int64_t path> struct Tree<0, path> { static constexpr int64_t value = path; };
extern "C" void f(const float*, float* y, int64_t, int64_t, int64_t) { y[0] = Tree<24, 1>::value; })"),
                                         "test");
  Result<BuildResult> built = invalid("not built");
  const double seconds = seconds_to_cancel(
      [&](const CancelToken& cancel) { built = backend_->build(*candidate, (*workload_)->task, cancel); });
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().code, ErrorCode::kCancelled);
  EXPECT_LT(seconds, 0.6);
  EXPECT_TRUE(build(kRight).ok()) << "another worker takes the place of the one that was killed";
}

TEST_F(CpuBackendTest, RunsACorrectKernelAndComparesEveryOutput) {
  const std::int64_t begin_ns = steady_clock().now_ns();
  const BlockOutcome outcome = run(kRight);
  const auto elapsed_ns = static_cast<double>(steady_clock().now_ns() - begin_ns);
  ASSERT_EQ(outcome.status, BlockStatus::kOk) << outcome.reason << outcome.detail;
  ASSERT_EQ(outcome.outputs.size(), 4u);
  for (const auto& trial : outcome.outputs) EXPECT_TRUE(trial[0].pass) << trial[0].reason;
  EXPECT_GT(outcome.wall_ns, 0);
  EXPECT_LT(outcome.wall_ns, elapsed_ns) << "a block is part of what its request takes";
}

TEST_F(CpuBackendTest, CodeLiesAtTheSamePlaceInEveryProcess) {
  std::set<double> pages;
  for (int session = 0; session < 4; ++session) {
    const BlockOutcome outcome = run(R"(
extern "C" float erff(float);
extern "C" void f(const float*, float* y, int64_t n, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = (float)(((uintptr_t)&erff >> 12) & 0xfffff);
})",
                                     5, {session});
    ASSERT_EQ(outcome.status, BlockStatus::kOk) << outcome.detail;
    pages.insert(outcome.outputs[0][0].got);
  }
  EXPECT_EQ(pages.size(), 1u);
}

TEST_F(CpuBackendTest, DetectsAWrongElement) {
  const BlockOutcome outcome = run(R"(
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = i == 500 ? 0.0f : x[i] + x[i];
})");
  ASSERT_EQ(outcome.status, BlockStatus::kOk);
  EXPECT_FALSE(outcome.outputs[0][0].pass);
  EXPECT_EQ(outcome.outputs[0][0].first_bad, 500);
}

TEST_F(CpuBackendTest, DetectsAnElementThatWasNeverWritten) {
  const BlockOutcome outcome = run(R"(
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end - 1; ++i) y[i] = x[i] + x[i];
})");
  ASSERT_EQ(outcome.status, BlockStatus::kOk);
  EXPECT_FALSE(outcome.outputs[0][0].pass);
}

TEST_F(CpuBackendTest, NamesTheBufferThatWasOverrun) {
  const BlockOutcome outcome = run(R"(
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end + 64; ++i) y[i] = 1;
})");
  EXPECT_EQ(outcome.status, BlockStatus::kCrash);
  EXPECT_EQ(outcome.reason, "oob_write");
  EXPECT_NE(outcome.detail.find("'y'"), std::string::npos) << outcome.detail;
}

TEST_F(CpuBackendTest, DetectsAWriteIntoTheGapsAroundAnOutput) {
  const BlockOutcome outcome = run(R"(
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + x[i];
  y[-1] = 0;
})");
  EXPECT_EQ(outcome.status, BlockStatus::kCrash);
  EXPECT_EQ(outcome.reason, "oob_write");
  EXPECT_NE(outcome.detail.find("bytes before the start of 'y'"), std::string::npos) << outcome.detail;
  const BlockOutcome behind = run(R"(
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  for (int64_t i = begin; i <= end; ++i) y[i] = x[i] + x[i];
})");
  EXPECT_EQ(behind.status, BlockStatus::kCrash);
  EXPECT_EQ(behind.reason, "oob_write");
  EXPECT_NE(behind.detail.find("wrote 0 bytes past the end of 'y', which has 4000"), std::string::npos)
      << behind.detail;
}

TEST_F(CpuBackendTest, RefusesAWriteToAnInput) {
  const BlockOutcome outcome = run(R"(
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  const_cast<float*>(x)[3] = 0;
})");
  EXPECT_EQ(outcome.status, BlockStatus::kCrash);
  EXPECT_EQ(outcome.reason, "input_written");
  EXPECT_NE(outcome.detail.find("'x'"), std::string::npos) << outcome.detail;
}

/// A stride or a sign that is wrong leads far from a buffer, into what lies there by chance.
TEST_F(CpuBackendTest, AnIndexThatIsWrongIsACrashThatNamesTheNearestBuffer) {
  const auto outcome_of = [](const std::string& statement, std::vector<int> trials) {
    return run("extern \"C\" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {\n" +
                   statement + "\n}",
               5, std::move(trials));
  };
  struct Case {
    const char* statement;
    const char* reason;
    const char* says;
  };
  for (const Case& one :
       {Case{"y[0] = x[-60];", "oob_read", "before the start of 'x'"},
        Case{"y[0] = x[-3000];", "oob_read", "12000 bytes before the start of 'x'"},
        Case{"y[0] = x[1040];", "oob_read", "160 bytes past the end of 'x'"},
        Case{"y[0] = x[1500];", "oob_read", "past the end of 'x', which has 4000 of fp32"},
        Case{"y[-3000] = 1;", "oob_write", "before the start of 'y'"},
        Case{"y[9000] = 1;", "oob_write", "past the end of 'y'"},
        Case{"y[-n * n * n] = 1;", "segfault", "wrote outside every buffer"},
        Case{"y[n * n * n] = 1;", "segfault", "out of the address space"},
        Case{"y[0] = *(const float*)(begin + 16);", "segfault", "read through a null pointer"}})
    for (const int trial : {0, 3, 7}) {
      const BlockOutcome outcome = outcome_of(one.statement, {trial});
      if (outcome.status == BlockStatus::kOk) {
        EXPECT_STREQ(one.statement, "y[0] = x[-60];") << "short of a page's start nothing is noticed";
        continue;
      }
      EXPECT_EQ(outcome.status, BlockStatus::kCrash) << one.statement << trial << outcome.detail;
      EXPECT_EQ(outcome.reason, one.reason) << one.statement << trial << outcome.detail;
      EXPECT_NE(outcome.detail.find(one.says), std::string::npos) << one.statement << trial << outcome.detail;
    }
}

TEST_F(CpuBackendTest, ACrashIsNamedForWhatItIs) {
  const auto outcome_of = [](const std::string& before, const std::string& statement) {
    return run(before +
               "\nextern \"C\" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) " +
               "{\n" + statement + "\n}");
  };
  struct Case {
    const char* before;
    const char* statement;
    const char* reason;
    const char* says;
  };
  for (const Case& one :
       {Case{"#include <stdlib.h>", "if (n > 0) abort();", "abort", "called abort()"},
        Case{"#include <assert.h>", "assert(n < 0);", "assertion", "the assertion in line 10 failed"},
        Case{"#include <exception>", "if (n > 0) std::terminate();", "abort", "std::terminate()"},
        Case{"#include <array>", "std::array<float, 4> a{}; y[0] = a.at(n);", "abort", "at()"},
        Case{"#include <functional>",
             "std::function<float(float)> g; asm(\"\" : : \"r\"(&g) : \"memory\"); y[0] = g(1);", "abort",
             "empty std::function"},
        Case{"", "if (n > 0) __builtin_trap();", "trap", "__builtin_trap()"},
        Case{"", "volatile int64_t zero = 0; y[0] = n / zero;", "arithmetic", "by zero"},
        Case{"#include <immintrin.h>", "_mm256_store_ps(y + 1, _mm256_setzero_ps());", "misaligned",
             "storeu"},
        Case{"#include <immintrin.h>", "__m128 v = _mm_load_ps(x + 1); asm volatile(\"\" : : \"x\"(v));",
             "misaligned", "loadu"},
        Case{"", "y[0] = *(const volatile float*)(0x123456789abcdef0 + n);", "segfault",
             "out of the address space"},
        Case{"", "void (*volatile g)() = nullptr; g();", "segfault", "a pointer to none"},
        Case{"__attribute__((noinline)) int64_t deep(int64_t i) { volatile int64_t a[64]; a[i % 64] = i; "
             "return "
             "deep(i + 1) + a[0]; }",
             "y[0] = deep(n);", "stack_overflow", "recursion"},
        Case{"", "volatile float big[8 << 20]; for (int64_t i = 0; i < 8 << 20; ++i) big[i] = i;",
             "stack_overflow", "large local arrays"},
        Case{"#include <alloca.h>", "volatile float* p = (float*)alloca(n << 20); p[0] = 1; p[n] = 2;",
             "stack_overflow", "alloca()"}}) {
    const BlockOutcome outcome = outcome_of(one.before, one.statement);
    EXPECT_EQ(outcome.status, BlockStatus::kCrash) << one.statement << outcome.reason << outcome.detail;
    EXPECT_EQ(outcome.reason, one.reason) << one.statement << outcome.detail;
    EXPECT_NE(outcome.detail.find(one.says), std::string::npos) << one.statement << outcome.detail;
  }
}

TEST_F(CpuBackendTest, KillsAKernelThatNeverFinishes) {
  const BlockOutcome outcome = run(R"(
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  for (volatile int i = 0;; i = i + 1) {}
})",
                                   0.2);
  EXPECT_EQ(outcome.status, BlockStatus::kTimeout);
}

TEST_F(CpuBackendTest, KillsAKernelThatMakesASystemCall) {
  const BlockOutcome outcome = run(R"(
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(57L) : "rcx", "r11", "memory");
})");
  EXPECT_EQ(outcome.status, BlockStatus::kTampered);
  EXPECT_EQ(outcome.reason, "forbidden_syscall");
}

TEST_F(CpuBackendTest, ASessionSurvivesACrash) {
  const auto candidate = parse_candidate(candidate_text(R"(
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) { *(volatile int*)0 = 1; })"),
                                         "test");
  const auto built = backend_->build(*candidate, (*workload_)->task);
  ASSERT_TRUE(built.ok() && built->ok);
  auto session = backend_->open(*candidate, built->artifact, *workload_);
  ASSERT_TRUE(session.ok());
  for (int i = 0; i < 3; ++i) {
    BlockRequest request;
    request.trials = {0};
    const auto outcome = (*session)->run(request);
    EXPECT_EQ(outcome.status, BlockStatus::kCrash);
    EXPECT_EQ(outcome.reason, "segfault");
  }
}

/// Processes of the user whose jails' processes are, where root starts them.
class Crowd {
 public:
  explicit Crowd(int size) {
    int ready[2];
    if (::pipe(ready) != 0) return;
    leader_ = ::fork();
    if (leader_ == 0) lead(size, ready[1]);
    ::close(ready[1]);
    char byte = 0;
    works_ = ::read(ready[0], &byte, 1) == 1;
    ::close(ready[0]);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd() {
    ::kill(-leader_, SIGKILL);
    ::waitpid(leader_, nullptr, 0);
  }
  bool works() const { return works_; }

 private:
  [[noreturn]] static void lead(int size, int ready) {
    constexpr uid_t kNobody = 65534;
    ::setpgid(0, 0);
    bool all = ::setresuid(kNobody, kNobody, kNobody) == 0;
    for (int i = 0; all && i < size; ++i) {
      const pid_t child = ::fork();
      if (child == 0)
        for (;;) ::pause();
      all = child > 0;
    }
    if (all) all = ::write(ready, "y", 1) == 1;
    ::close(ready);
    for (;;) ::pause();
  }

  pid_t leader_ = 0;
  bool works_ = false;
};

TEST_F(CpuBackendTest, ManyProcessesOfOtherProgramsJailsTakeNothingFromThisOnes) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root's jails share a user";
  constexpr int kMany = 700;
  const Crowd crowd(kMany);
  if (!crowd.works()) GTEST_SKIP() << "the machine starts no " << kMany << " processes";
  const BlockOutcome outcome = run(kRight);
  EXPECT_EQ(outcome.status, BlockStatus::kOk) << outcome.reason << outcome.detail;
}

TEST_F(CpuBackendTest, ReportsACompileErrorWithTheCandidatesOwnLines) {
  const auto built = build("extern \"C\" void f() { nonsense; }");
  ASSERT_TRUE(built.ok()) << built.error().to_string();
  EXPECT_FALSE(built->ok);
  EXPECT_EQ(built->reason, "compile_error");
  EXPECT_NE(built->facts.log.find("candidate:8:"), std::string::npos) << built->facts.log;
}

TEST_F(CpuBackendTest, ACompileCannotReadTheHostsFiles) {
  const auto built = build("#include \"/etc/passwd\"\nextern \"C\" void f() {}");
  ASSERT_TRUE(built.ok());
  EXPECT_FALSE(built->ok);
  EXPECT_NE(built->facts.log.find("No such file"), std::string::npos) << built->facts.log;
}

TEST_F(CpuBackendTest, RefusesConstructorsForeignSymbolsAndThreadLocals) {
  EXPECT_EQ(build("struct S { S() { asm volatile(\"\"); } }; S s; extern \"C\" void f() {}")->reason,
            "constructor");
  EXPECT_EQ(
      build("extern \"C\" int system(const char*); extern \"C\" void f() { system(\"true\"); }")->reason,
      "forbidden_symbol");
  EXPECT_EQ(build("thread_local int kept; extern \"C\" void f() { kept = kept + 1; }")->reason,
            "thread_local");
}

TEST_F(CpuBackendTest, WhatOneSlipsIntoIsABuildFailureThatSaysWhatToWrite) {
  const auto clones =
      build("__attribute__((target_clones(\"avx2\", \"default\"))) void f(float* y) { y[0] = 1; }");
  EXPECT_EQ(clones->outcome, Outcome::kBuildFailed);
  EXPECT_EQ(clones->reason, "ifunc");
  EXPECT_NE(clones->facts.log.find("leave target_clones"), std::string::npos) << clones->facts.log;
  const auto asks = build("extern \"C\" void f(float* y) { y[0] = __builtin_cpu_supports(\"avx2\"); }");
  EXPECT_EQ(asks->outcome, Outcome::kBuildFailed);
  EXPECT_EQ(asks->reason, "cpu_dispatch");
  EXPECT_NE(asks->facts.log.find("compiled for this machine"), std::string::npos) << asks->facts.log;
  const auto prints = build("#include <stdio.h>\nextern \"C\" void f() { puts(\"hello\"); }");
  EXPECT_EQ(prints->outcome, Outcome::kBuildFailed);
  EXPECT_EQ(prints->reason, "unknown_function");
  EXPECT_NE(prints->facts.log.find("write others out"), std::string::npos) << prints->facts.log;
  const auto opens =
      build("extern \"C\" void* dlopen(const char*, int); extern \"C\" void f() { dlopen(\"\", 1); }");
  EXPECT_EQ(opens->outcome, Outcome::kTampered);
}

TEST_F(CpuBackendTest, WhatKernelsDoElsewhereIsABuildFailureThatNamesLineAndRemedy) {
  struct Case {
    std::string body;
    const char* reason;
    std::vector<const char*> says;
  };
  const std::string kernel =
      "\nextern \"C\" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) ";
  const auto with = [&](const char* block) { return kernel + block; };
  const std::vector<Case> cases = {
      {"static float buffer[1 << 20];" +
           with("{ buffer[n] = x[0]; asm(\"\" : : \"r\"(buffer) : \"memory\"); }"),
       "writable_state",
       {"'buffer' (line 8) has 4194304 bytes", "[[scratch]]"}},
      {"namespace big { float buffer[16 << 20]; }" + with("{ big::buffer[n] = x[0]; }"),
       "writable_state",
       {"'buffer' (line 8) has 67108864 bytes", "[[scratch]]"}},
      {"static thread_local float kept[256];" + with("{ kept[n % 256] = x[0]; y[0] = kept[end % 256]; }"),
       "thread_local",
       {"'kept' (line 8) is thread_local", "local array"}},
      {"#include <array>\nstatic float made(int i) { volatile float v = i; return v; }\n"
       "static const auto table = [] { std::array<float, 64> t{}; for (int i = 0; i < 64; ++i) t[i] = "
       "made(i); return t; }();" +
           with("{ for (int64_t i = begin; i < end; ++i) y[i] = table[i % 64]; }"),
       "constructor",
       {"'table' (line 10) is initialised by code", "constexpr"}},
      {"#include <vector>" +
           with("{ std::vector<float> v(n); y[0] = v[n - 1]; v.push_back(y[1]); y[2] = v[n]; }"),
       "unknown_function",
       {"the heap (line 9)", "[[scratch]]"}},
      {"#include <string>" +
           with("{ std::string s(n, 'a'); asm(\"\" : : \"r\"(&s) : \"memory\"); y[0] = s.size(); }"),
       "unknown_function",
       {"the heap (line 9)"}},
      {"#include <stdlib.h>" +
           with("{ float* p = (float*)malloc(n); asm(\"\" : \"+r\"(p)); y[0] = p[0]; free(p); }"),
       "unknown_function",
       {"the heap (line 9)"}},
      {"#include <stdio.h>" + with("{ printf(\"%f\", x[0]); }"),
       "unknown_function",
       {"something is printed (line 9): leave it out"}},
      {"#include <omp.h>" + with("{ y[0] = omp_get_thread_num(); }"),
       "unknown_function",
       {"OpenMP's library is called (line 9)", "begin and end"}},
      {"#include <thread>" + with("{ std::thread t([&] { y[0] = 1; }); t.join(); }"),
       "unknown_function",
       {"threads are started", "(line 9)", "begin and end"}},
      {"extern \"C\" int pthread_create(void*, void*, void*, void*);" +
           with("{ pthread_create(0, 0, 0, y); }"),
       "unknown_function",
       {"threads are started"}},
      {"#include <stdlib.h>\n#include <time.h>" + with("{ srand(time(nullptr)); y[0] = rand(); }"),
       "unknown_function",
       {"random numbers of the system's are drawn (line 10)", "the clock or the environment is read"}},
      {"float helper(float);" + with("{ y[0] = helper(x[0]); }"),
       "unknown_function",
       {"'helper' (line 8) is called and not defined"}},
      {with("{ if (n < 0) throw 1; }"),
       "compile_error",
       {"hint: kernels are compiled without exceptions", "(line 9)"}},
      {"#include <iostream>" + with("{ y[0] = 1; }"),
       "compile_error",
       {"hint: the #include in line 8", "standard streams", "<algorithm>"}},
      {"#include <bits/stdc++.h>" + with("{ y[0] = std::max(x[0], x[1]); }"),
       "compile_error",
       {"hint: the #include in line 8"}},
      {"#include <vector>\nstatic std::vector<float> kept(64);" + with("{ y[0] = kept[n % 64]; }"),
       "compile_error",
       {"hint: a static variable (line 9) has a destructor", "[[scratch]]"}},
      {"#include <immintrin.h>" + with("{ _mm256_storeu_ps(y, _mm256_exp_ps(_mm256_loadu_ps(x))); }"),
       "compile_error",
       {"hint: ", "SVML", "lathe::exp()"}},
      {"#include <algorithm>\n#include <execution>" +
           with("{ std::transform(std::execution::par_unseq, x, x + n, y, [](float v) { return v; }); }"),
       "compile_error",
       {"hint: std::execution's policies"}},
      {"__global__ void g(float* y) { y[blockIdx.x] = 1; }" + with("{}"),
       "compile_error",
       {"hint: that is CUDA", "--device cuda"}},
      {"#include <lathe/cuda.cuh>" + with("{}"), "compile_error", {"hint: that is CUDA"}},
      {"#include <Eigen/Dense>" + with("{}"), "compile_error", {"hint: a kernel may include"}}};
  for (const auto& [body, reason, says] : cases) {
    const auto built = build(body);
    ASSERT_TRUE(built.ok()) << built.error().to_string();
    EXPECT_FALSE(built->ok) << body;
    EXPECT_EQ(built->outcome, Outcome::kBuildFailed) << body << built->reason;
    EXPECT_EQ(built->reason, reason) << body << built->facts.log;
    for (const char* words : says)
      EXPECT_NE(built->facts.log.find(words), std::string::npos) << body << "\n" << built->facts.log;
  }
}

TEST_F(CpuBackendTest, WhatNobodyWritesByMistakeIsTampering) {
  for (const char* body :
       {"static float t[4]; __attribute__((constructor)) static void fill() { asm volatile(\"\"); t[0] = 1; "
        "} "
        "extern \"C\" void f() {}",
        "extern \"C\" void early() {} asm(\".pushsection .init_array,\\\"aw\\\"\\n.quad "
        "early\\n.popsection\");",
        "extern \"C\" int aaa(), system(const char*), zzz(); extern \"C\" void f() { aaa(); "
        "system(\"true\"); zzz(); }",
        "extern \"C\" void cblas_sgemm(); extern \"C\" void f() { cblas_sgemm(); }"}) {
    const auto built = build(body);
    ASSERT_TRUE(built.ok()) << built.error().to_string();
    EXPECT_EQ(built->outcome, Outcome::kTampered) << body << built->reason << built->facts.log;
  }
}

TEST_F(CpuBackendTest, RunsWhatHonestClassesAreMadeOf) {
  const BlockOutcome outcome = run(R"(
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
struct Shape { virtual float of(float x) const = 0; virtual ~Shape() {} };
struct Twice final : Shape { float of(float x) const override { return x + x; } };
struct Table { float zero[64]; Table() { for (float& z : zero) { volatile float v = 0; z = v; } } };
static float work[1000];
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  static const Table table;
  const Twice twice;
  const Shape* volatile shape = &twice;
  const std::function<float(float)> add = [&](float v) { return v + table.zero[n % 64]; };
  std::array<float, 8> zeros{};
  std::sort(zeros.begin(), zeros.end());
  const std::optional<float> maybe = n > 0 ? std::optional<float>(0) : std::nullopt;
  for (int64_t i = begin; i < end; ++i) work[i] = shape->of(x[i]);
  for (int64_t i = begin; i < end; ++i) y[i] = add(work[i]) + zeros.at(static_cast<size_t>(i) % 8) + maybe.value();
})");
  ASSERT_EQ(outcome.status, BlockStatus::kOk) << outcome.reason << outcome.detail;
  for (const auto& trial : outcome.outputs)
    EXPECT_TRUE(trial[0].pass) << trial[0].got << " for " << trial[0].want;
}

TEST_F(CpuBackendTest, RunsWhatHonestKernelsAreMadeOf) {
  const BlockOutcome outcome = run(R"(
#include <assert.h>
#include <math.h>
#include <complex>
static float zero(float) { return 0; }
float none(float x) { return x - x; }
using Function = float (*)(float);
static const Function table[] = {zero, none, zero};
static constexpr Function more[] = {none, zero};
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    assert(n > 0);
    std::complex<float> c(x[i], 0);
    c = c * std::complex<float>(2, 0) / std::complex<float>(1, 0);
    const __int128 big = static_cast<__int128>(i + 1) * n;
    const std::complex<double> root = std::sqrt(std::complex<double>(x[i], 0) * 0.0);
    const float none = static_cast<float>(big / n - (i + 1)) + static_cast<float>(root.real()) + exp2(-2000.0) + sinf(0.0f) * cosf(x[i]) + tgammaf(1) - 1;
    y[i] = ldexpf(c.real(), 1) / 2 + none + table[i % 3](x[i]) + more[n & 1](x[i]);
  }
})");
  ASSERT_EQ(outcome.status, BlockStatus::kOk) << outcome.reason << outcome.detail;
  for (const auto& trial : outcome.outputs)
    EXPECT_TRUE(trial[0].pass) << trial[0].got << " for " << trial[0].want;
}

TEST_F(CpuBackendTest, EveryFunctionThatMayBeCalledIsThere) {
  std::string text = "#include <stdint.h>\n";
  std::string calls;
  for (const std::string& name : allowed_imports()) {
    const std::string alias = "call_" + name;
    text += "extern \"C\" void " + alias + "() __asm__(\"" + name + "\");\n";
    calls += "  functions[0] = " + alias + ";\n";
  }
  text +=
      "extern \"C\" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {\n  void "
      "(*volatile functions[1])();\n" +
      calls + "  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + x[i];\n}\n";
  const BlockOutcome outcome = run(text);
  ASSERT_EQ(outcome.status, BlockStatus::kOk) << outcome.reason << outcome.detail;
}

TEST(TimeOfCalls, IsNeverNextToNothingWhereTheBrokerHasNoProcessor) {
  const SessionOptions spins{{3}, 2e3}, naps{{}, 70e3};
  EXPECT_EQ(time_of_calls(300e3, spins), 298e3);
  EXPECT_EQ(time_of_calls(3e3, spins), 1e3);
  EXPECT_EQ(time_of_calls(70.1e3, naps), 35.05e3);
  EXPECT_EQ(time_of_calls(60e3, naps), 30e3);
}

TEST_F(CpuBackendTest, AnAssertionThatDoesNotHoldIsACrash) {
  const BlockOutcome outcome = run(R"(
#include <assert.h>
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) { assert(n < 0); })");
  EXPECT_EQ(outcome.status, BlockStatus::kCrash) << outcome.reason;
}

TEST_F(CpuBackendTest, GlobalsAreRestoredBeforeEveryCall) {
  const BlockOutcome outcome = run(R"(
static int calls = 0;
extern "C" void f(const float* x, float* y, int64_t n, int64_t begin, int64_t end) {
  ++*const_cast<volatile int*>(&calls);
  for (int64_t i = begin; i < end; ++i) y[i] = calls == 1 ? x[i] + x[i] : 0;
})");
  ASSERT_EQ(outcome.status, BlockStatus::kOk) << outcome.detail;
  for (const auto& trial : outcome.outputs) EXPECT_TRUE(trial[0].pass);
}

TEST_F(CpuBackendTest, AScalarOfEveryTypeArrives) {
  for (const DTypeInfo& type : all_dtypes()) {
    if (type.dtype == DType::kBool) continue;
    const std::string name(type.name), c_type(type.c_name);
    const auto task = parse_task(
        "name = \"scaled\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\"], dtype = \"" + name +
            "\", gen = { kind = \"uniform\", low = -3, high = 3 } }, { name = \"a\", role = "
            "\"scalar\", dtype = \"" +
            name + "\", value = -2 }]\ngraph = \"y = mul(x, a)\"\nshape = [{ n = 10 }]\n",
        "scaled.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    Workload workload;
    workload.task = *lathe::bind(*task, task->shapes[0].dims);
    workload.trials.resize(1);
    Trial& trial = workload.trials[0];
    trial.inputs = generate_inputs(workload.task, Distribution::kNormal, Seed::from_number(1));
    trial.expected = *(*make_reference(*task))->evaluate(workload.task, trial.inputs, {});
    const auto prepared = backend_->prepare(std::move(workload));
    ASSERT_TRUE(prepared.ok()) << prepared.error().to_string();
    const auto candidate = parse_candidate(
        "/*lathe\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"x\", \"y\", \"a\"]\n*/\n#include "
        "<lathe/cpu.h>\nextern \"C\" void f(const " +
            c_type + "* x, " + c_type + "* y, " + c_type +
            " a, int64_t begin, int64_t end) {\n  for (int64_t i = begin; i < end; ++i) y[i] = static_cast<" +
            c_type + ">(x[i] * a);\n}\n",
        "test");
    const auto built = backend_->build(*candidate, (*prepared)->task);
    ASSERT_TRUE(built.ok() && built->ok) << built->facts.log;
    const auto session = backend_->open(*candidate, built->artifact, *prepared);
    ASSERT_TRUE(session.ok()) << name << ": " << session.error().to_string();
    BlockRequest request;
    request.trials = {0};
    const BlockOutcome outcome = (*session)->run(request);
    ASSERT_EQ(outcome.status, BlockStatus::kOk) << name << ": " << outcome.detail;
    EXPECT_TRUE(outcome.outputs[0][0].pass) << name;
  }
}

TEST_F(CpuBackendTest, MoreFloatingPointScalarsThanRegistersAreTheCandidatesFault) {
  const auto task = parse_task(
      "name = \"scaled\"\ndims = [\"n\"]\ntensor = [{ name = \"x\", shape = [\"n\"] }, { name = \"a\", role "
      "= "
      "\"scalar\" }]\ngraph = \"y = mul(x, a)\"\nshape = [{ n = 10 }]\n",
      "scaled.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  Workload workload;
  workload.task = *lathe::bind(*task, task->shapes[0].dims);
  workload.trials.resize(1);
  workload.trials[0].inputs = generate_inputs(workload.task, Distribution::kNormal, Seed::from_number(1));
  workload.trials[0].expected =
      *(*make_reference(*task))->evaluate(workload.task, workload.trials[0].inputs, {});
  const auto prepared = backend_->prepare(std::move(workload));
  ASSERT_TRUE(prepared.ok()) << prepared.error().to_string();
  const auto open = [&](int scalars) {
    std::string args = "\"x\", \"y\"", parameters = "const float* x, float* y";
    for (int i = 0; i < scalars; ++i) {
      args += ", \"a\"";
      parameters += ", float a" + std::to_string(i);
    }
    const auto candidate = parse_candidate("/*lathe\n[[launch]]\nkernel = \"f\"\nargs = [" + args +
                                               "]\n*/\n#include <lathe/cpu.h>\nextern \"C\" void f(" +
                                               parameters + ", int64_t begin, int64_t end) {}\n",
                                           "test");
    const auto built = backend_->build(*candidate, (*prepared)->task);
    EXPECT_TRUE(built.ok() && built->ok);
    return backend_->open(*candidate, built->artifact, *prepared);
  };
  EXPECT_TRUE(open(8).ok());
  const auto session = open(9);
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().reason, "too_many_scalars");
}

TEST_F(CpuBackendTest, ScratchThatTheMachineCannotSpareIsTheCandidatesFault) {
  CpuBackendOptions options;
  options.cache_folder = testing::TempDir() + "lathe-cache";
  options.memory_bytes = std::int64_t{1} << 30;
  const auto small = make_cpu_backend(options);
  ASSERT_TRUE(small.ok()) << small.error().to_string();
  const auto open = [&](const std::string& bytes) {
    const auto candidate =
        parse_candidate("/*lathe\n[[scratch]]\nname = \"s\"\nbytes = \"" + bytes +
                            "\"\n[[scratch]]\nname = \"t\"\nbytes = 8\n[[launch]]\nkernel = \"f\"\n"
                            "args = [\"x\", \"y\", \"s\"]\n*/\n#include <lathe/cpu.h>\n"
                            "extern \"C\" void f(const float*, float*, float*, int64_t, int64_t) {}\n",
                        "test");
    const auto built = (*small)->build(*candidate, (*workload_)->task);
    EXPECT_TRUE(built.ok() && built->ok);
    return (*small)->open(*candidate, built->artifact, *workload_);
  };
  EXPECT_TRUE(open("(1 << 28) - 8").ok());
  const auto session = open("1 << 28");
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(session.error().reason, "scratch_too_large");
  EXPECT_NE(session.error().message.find("268435464 bytes"), std::string::npos) << session.error().message;
  EXPECT_NE(session.error().hint.find("here 268435456 bytes"), std::string::npos) << session.error().hint;
}

TEST_F(CpuBackendTest, AMissingKernelIsTheCandidatesFault) {
  const auto candidate = parse_candidate(candidate_text("extern \"C\" void g() {}"), "test");
  const auto built = backend_->build(*candidate, (*workload_)->task);
  ASSERT_TRUE(built.ok() && built->ok);
  const auto session = backend_->open(*candidate, built->artifact, *workload_);
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(session.error().reason, "undefined_kernel");
}

}  // namespace
}  // namespace lathe
