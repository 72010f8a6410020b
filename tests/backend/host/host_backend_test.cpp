#include "backend/host/host_backend.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/fd.h"
#include "baseline/baseline.h"
#include "task/sample.h"

namespace lathe {
namespace {

constexpr const char* kTask = R"(
name = "softmax_module"
dims = { rows = [1, 64], cols = [1, 64] }

[reference]
kind = "process"
source = "softmax_module.py"

[[tensor]]
name = "x"
shape = ["rows", "cols"]

[[output]]
name = "y"
shape = ["rows", "cols"]

[[shape]]
rows = 33
cols = 65
)";

constexpr const char* kModule = R"(
import torch


class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(size))

    def forward(self, x):
        return torch.softmax(x, dim=-1) * self.scale


cols = 3


def get_init_inputs():
    return [cols]


def get_inputs():
    return [torch.rand(2, cols)]
)";

std::string candidate_text(const std::string& body, const std::string& before = "") {
  return "\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"ModelNew\"\n\"\"\"\nimport torch\n" + before +
         "class ModelNew(torch.nn.Module):\n"
         "    def __init__(self, size):\n"
         "        super().__init__()\n"
         "        self.scale = torch.nn.Parameter(torch.zeros(size))\n"
         "    def forward(self, x):\n" +
         body;
}

/// A backend, a task and its trials, made once: they take seconds.
struct Fixture {
  Result<std::unique_ptr<Backend>> backend = Error{ErrorCode::kUnavailable, "not made"};
  TaskSpec spec;
  BoundTask bound;
  std::unique_ptr<Reference> reference;
  std::shared_ptr<const Workload> workload;

  Fixture() {
    HostBackendOptions options;
    options.cache_folder = testing::TempDir() + "lathe-host-cache";
    backend = make_host_backend(options);
    if (!backend.ok()) return;
    const std::string folder = testing::TempDir() + "lathe-host-task";
    EXPECT_TRUE(make_directories(folder).ok());
    EXPECT_TRUE(write_file_atomically(folder + "/softmax_module.py", kModule).ok());
    EXPECT_TRUE(write_file_atomically(folder + "/softmax_module.toml", kTask).ok());
    auto parsed = load_task(folder + "/softmax_module.toml");
    EXPECT_TRUE(parsed.ok()) << parsed.error().to_string();
    spec = *std::move(parsed);
    bound = *lathe::bind(spec, spec.shapes.front().dims);
    reference = *(*backend)->make_reference(spec);
    Workload made;
    made.task = bound;
    for (std::uint64_t i = 0; i < 4; ++i) {
      auto sample = draw_sample(*reference, bound, Distribution::kNormal, Seed::from_number(i), {});
      EXPECT_TRUE(sample.ok()) << sample.error().to_string();
      made.trials.push_back({Distribution::kNormal, (*sample)->inputs, (*sample)->expected});
    }
    workload = *(*backend)->prepare(std::move(made));
  }
};

class HostBackendTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { fixture_ = std::make_unique<Fixture>(); }
  static void TearDownTestSuite() { fixture_.reset(); }
  void SetUp() override {
    if (!fixture_->backend.ok()) GTEST_SKIP() << fixture_->backend.error().to_string();
  }

  static Backend& backend() { return **fixture_->backend; }

  static BuildResult build(const std::string& text) {
    const auto candidate = parse_candidate(text, "candidate");
    EXPECT_TRUE(candidate.ok()) << candidate.error().to_string();
    auto built = backend().build(*candidate, fixture_->bound);
    EXPECT_TRUE(built.ok()) << built.error().to_string();
    return built.ok() ? *built : BuildResult{};
  }

  static BlockOutcome run(const std::string& text, bool timed = false) {
    const auto candidate = parse_candidate(text, "candidate");
    EXPECT_TRUE(candidate.ok()) << candidate.error().to_string();
    auto session = backend().open(*candidate, {}, fixture_->workload);
    EXPECT_TRUE(session.ok()) << session.error().to_string();
    if (!session.ok()) return {};
    BlockRequest request;
    request.trials = {2, 0, 1, 3};
    request.timeout_seconds = 3;
    request.timed = timed;
    return (*session)->run(request);
  }

  static bool all_pass(const BlockOutcome& outcome) {
    if (outcome.status != BlockStatus::kOk || outcome.outputs.size() != 4) return false;
    for (const auto& trial : outcome.outputs)
      for (const Comparison& one : trial)
        if (!one.pass) return false;
    return true;
  }

  static std::unique_ptr<Fixture> fixture_;
};
std::unique_ptr<Fixture> HostBackendTest::fixture_;

TEST_F(HostBackendTest, AModuleWithTheReferencesParametersPasses) {
  const std::string text = candidate_text("        return torch.softmax(x, dim=-1) * self.scale\n");
  EXPECT_TRUE(build(text).ok);
  const BlockOutcome outcome = run(text, true);
  EXPECT_TRUE(all_pass(outcome)) << outcome.reason << " " << outcome.detail;
  EXPECT_GT(outcome.wall_ns, 0);
}

TEST_F(HostBackendTest, TheTasksOwnModulePassesAsACandidate) {
  const auto naive = naive_candidate(fixture_->spec);
  ASSERT_TRUE(naive.ok()) << naive.error().to_string();
  EXPECT_TRUE(build(naive->text).ok);
  const BlockOutcome outcome = run(naive->text);
  EXPECT_TRUE(all_pass(outcome)) << outcome.reason << " " << outcome.detail;
}

TEST_F(HostBackendTest, AWrongModuleIsWrong) {
  const BlockOutcome outcome = run(candidate_text("        return torch.softmax(x, dim=0) * self.scale\n"));
  ASSERT_EQ(outcome.status, BlockStatus::kOk) << outcome.reason << " " << outcome.detail;
  EXPECT_FALSE(all_pass(outcome));
}

TEST_F(HostBackendTest, WhatGoesWrongHasAReason) {
  const struct {
    const char* body;
    const char* reason;
  } cases[] = {{"        raise ValueError('no')\n", "exception"},
               {"        import os; os._exit(0)\n", "exit"},
               {"        import os; os.fork(); return x\n", "forbidden_syscall"},
               {"        return x.sum()\n", "not_dense"},
               {"        return x.to_sparse()\n", "not_dense"},
               {"        x.mul_(2); return x\n", "input_written"},
               {"        while True: pass\n", "timeout"}};
  for (const auto& one : cases) EXPECT_EQ(run(candidate_text(one.body)).reason, one.reason) << one.body;
}

TEST_F(HostBackendTest, ABuildSaysWhatIsWrongWithAModule) {
  EXPECT_EQ(build(candidate_text("        return x\n", "import nothing_of_that_name\n")).reason,
            "import_error");
  EXPECT_EQ(build("\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"Other\"\n\"\"\"\n").reason,
            "entry_error");
  EXPECT_EQ(build("\"\"\"lathe\n[host]\nlanguage = \"perl\"\nentry = \"Other\"\n\"\"\"\n").reason,
            "language");
}

}  // namespace
}  // namespace lathe
