#include "backend/host/host_backend.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/fd.h"
#include "base/parallel.h"
#include "baseline/baseline.h"
#include "task/sample.h"
#include "task/task_text.h"

namespace lathe {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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

/// A backend, a task and its trials, made once for all suites: they take seconds.
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
  static void SetUpTestSuite() {
    if (fixture_ == nullptr) fixture_ = std::make_unique<Fixture>();
  }
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
               {"        import os; os._exit(19)\n", "exit"},  // a full GPU's, which there is not
               {"        raise RuntimeError('CUDA out of memory')\n", "exception"},
               {"        import os; os.fork(); return x\n", "forbidden_syscall"},
               {"        return x.sum()\n", "not_dense"},
               {"        return x.to_sparse()\n", "not_dense"},
               {"        x.mul_(2); return x\n", "input_written"},
               {"        while True: pass\n", "timeout"}};
  for (const auto& one : cases) EXPECT_EQ(run(candidate_text(one.body)).reason, one.reason) << one.body;
}

TEST_F(HostBackendTest, AnErrorInsideALibraryNamesItsModuleNotItsFolder) {
  const std::string detail =
      run(candidate_text("        return torch.nn.functional.layer_norm(x, [x.shape[1] + 1])\n")).detail;
  EXPECT_THAT(detail, HasSubstr("File \"torch/nn/functional.py\""));
  EXPECT_THAT(detail, Not(HasSubstr("packages")));
}

TEST_F(HostBackendTest, ABuildSaysWhatIsWrongWithAModule) {
  EXPECT_EQ(build(candidate_text("        return x\n", "import nothing_of_that_name\n")).reason,
            "import_error");
  EXPECT_EQ(build("\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"Other\"\n\"\"\"\n").reason,
            "entry_error");
  EXPECT_EQ(build("\"\"\"lathe\n[host]\nlanguage = \"perl\"\nentry = \"Other\"\n\"\"\"\n").reason,
            "language");
}

TEST_F(HostBackendTest, ABuildSaysHowAModuleIsMadeAndGetsItsParameters) {
  const std::string head =
      "\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"ModelNew\"\n\"\"\"\nimport torch\n";
  const BuildResult other_names = build(head +
                                        "class ModelNew(torch.nn.Module):\n"
                                        "    def __init__(self, size):\n"
                                        "        super().__init__()\n"
                                        "        self.fused = torch.nn.Parameter(torch.zeros(size))\n");
  EXPECT_EQ(other_names.reason, "state_mismatch");
  EXPECT_THAT(other_names.facts.log,
              AllOf(HasSubstr("\"fused\""), HasSubstr("load_state_dict(): scale. What"),
                    HasSubstr("at its first call")));
  const BuildResult function = build(head + "def ModelNew(x):\n    return x\n");
  EXPECT_EQ(function.reason, "state_mismatch");
  EXPECT_THAT(function.facts.log, HasSubstr("no torch.nn.Module"));
  const BuildResult no_arguments = build(head + "class ModelNew(torch.nn.Module):\n    pass\n");
  EXPECT_EQ(no_arguments.reason, "entry_error");
  EXPECT_THAT(no_arguments.facts.log, HasSubstr("the reference's arguments: (65)"));
}

TEST_F(HostBackendTest, AnErrorThatShowsATensorSaysFirstWhatIsWrong) {
  const BlockOutcome outcome =
      run(candidate_text("        raise ValueError('no such thing: ' + '1.5 ' * 5000 + ' in all')\n"));
  EXPECT_THAT(outcome.detail, AllOf(HasSubstr("no such thing"), HasSubstr("in all")));
  EXPECT_LT(outcome.detail.size(), 3000u);
}

TEST_F(HostBackendTest, WhoWritesToAnInputIsToldToWhich) {
  const BlockOutcome outcome = run(candidate_text("        x.mul_(2); return x\n"));
  EXPECT_EQ(outcome.status, BlockStatus::kCrash) << "a mistake that is easily made is no accusation";
  EXPECT_THAT(outcome.detail, HasSubstr("the input 'x'"));
}

TEST_F(HostBackendTest, ATaskWithoutAModuleIsRefusedWithWhatHelps) {
  const auto graph = parse_task(
      "name = \"twice\"\ndims = { n = [1, 64] }\ntensor = [{ name = \"x\", shape = [\"n\"] }]\n"
      "graph = \"y = add(x, x)\"\nshape = [{ n = 16 }]\n",
      "twice.toml");
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  const auto made = backend().make_reference(*graph);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(made.error().to_string(), HasSubstr("twice.toml"));
  EXPECT_THAT(made.error().to_string(), HasSubstr("--device cpu"));
}

TaskSpec task_of(const std::string& module) {
  auto spec = parse_task_text(
      {"name = \"module\"\n[reference]\nkind = \"process\"\nsource = \"module.py\"\n", module}, "task");
  EXPECT_TRUE(spec.ok()) << spec.error().to_string();
  return *std::move(spec);
}

TEST_F(HostBackendTest, ATaskWithoutTensorsHasThoseOfItsModule) {
  const std::string model =
      "import torch\nclass Model(torch.nn.Module):\n"
      "    def forward(self, x, i, k):\n        return (x * k).sum(), x.argmax(-1)\n";
  const auto whole = complete_task(
      backend(),
      task_of(model + "def get_inputs():\n    return [torch.rand(3, 5), torch.randint(0, 7, (64,)), 2.5]\n"));
  ASSERT_TRUE(whole.ok()) << whole.error().to_string();
  ASSERT_EQ(whole->tensors.size(), 3u);
  EXPECT_TRUE(whole->tensors[0].generator.bounded) << "torch.rand is not negative";
  EXPECT_GE(whole->tensors[0].generator.low, 0);
  EXPECT_EQ(whole->tensors[1].role, Role::kIndex);
  EXPECT_EQ(whole->tensors[1].dtype, DType::kI64);
  EXPECT_EQ(whole->tensors[2].role, Role::kScalar);
  EXPECT_EQ(whole->tensors[2].value, 2.5);
  ASSERT_EQ(whole->outputs.size(), 2u);
  EXPECT_EQ(whole->outputs[1].compare, CompareKind::kExact);
  const auto bound = lathe::bind(*whole, {});
  ASSERT_TRUE(bound.ok()) << bound.error().to_string();
  EXPECT_EQ(bound->shape_of("input0"), (Shape{3, 5}));
  EXPECT_EQ(bound->shape_of("output0"), Shape{});

  const auto refusal = [&](const std::string& module) {
    const auto refused = complete_task(backend(), task_of(module));
    EXPECT_FALSE(refused.ok());
    return refused.ok() ? std::string() : refused.error().message;
  };
  const auto refused_input = [&](const std::string& input) {
    return refusal(model + "def get_inputs():\n    return [" + input + "]\n");
  };
  EXPECT_THAT(refusal(model), HasSubstr("no get_inputs()"));
  EXPECT_THAT(refused_input("torch.ones(4)"), HasSubstr("the same at every call"));
  EXPECT_THAT(refused_input("torch.triu(torch.randn(9, 9))"), HasSubstr("zeros by design"));
  EXPECT_THAT(refused_input("torch.randint(0, 2, (64,)) * 2.0 - 1"), HasSubstr("whole numbers"));
  EXPECT_THAT(refused_input("(lambda a: a + a.T)(torch.randn(9, 9))"), HasSubstr("symmetric"));
  EXPECT_THAT(refused_input("'text'"), HasSubstr("is a str"));
  EXPECT_THAT(refused_input("no_such_name"), HasSubstr("no_such_name"));
}

TEST_F(HostBackendTest, AWholeNumberThatIsNeverZeroIsNotDrawnAsOne) {
  const auto whole = complete_task(
      backend(), task_of("import torch\nclass Model(torch.nn.Module):\n"
                         "    def forward(self, x, d, i):\n        return x // d, i + 1\n"
                         "def get_inputs():\n"
                         "    return [torch.randint(-9, 9, (99,)), torch.randint(1, 7, (99,)),\n"
                         "            torch.randint(0, 10**6, (99,))]\n"));
  ASSERT_TRUE(whole.ok()) << whole.error().to_string();
  EXPECT_TRUE(whole->tensors[1].generator.bounded);
  EXPECT_EQ(whole->tensors[1].generator.low, 1);
  EXPECT_EQ(whole->tensors[1].generator.high, 6);
  EXPECT_EQ(whole->tensors[2].role, Role::kIndex) << "of a large table it may be by chance";
}

constexpr const char* kHead = "\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"ModelNew\"\n\"\"\"\n";

/// Candidates of a task that is its module.
class OwnTaskTest : public HostBackendTest {
 protected:
  /// The verdict's reason, and what is said of it; "pass" where all outputs are right.
  static std::string judge(const TaskSpec& whole, const std::string& text) {
    const BoundTask task = *lathe::bind(whole, {});
    const auto reference = backend().make_reference(whole);
    if (!reference.ok()) return reference.error().to_string();
    Workload made;
    made.task = task;
    for (std::uint64_t i = 0; i < 2; ++i) {
      auto sample = draw_sample(**reference, task, Distribution::kNormal, Seed::from_number(i), {});
      if (!sample.ok()) return sample.error().to_string();
      made.trials.push_back({Distribution::kNormal, (*sample)->inputs, (*sample)->expected});
    }
    const auto workload = backend().prepare(std::move(made));
    if (!workload.ok()) return workload.error().to_string();
    const auto candidate = parse_candidate(text, "candidate");
    const auto built = backend().build(*candidate, task);
    if (!built.ok()) return built.error().to_string();
    if (!built->ok) return built->reason + " " + built->facts.log;
    const auto session = backend().open(*candidate, built->artifact, *workload);
    if (!session.ok()) return session.error().to_string();
    BlockRequest request;
    request.trials = {0, 1};
    const BlockOutcome outcome = (*session)->run(request);
    if (outcome.status != BlockStatus::kOk) return outcome.reason + " " + outcome.detail;
    for (const auto& trial : outcome.outputs)
      for (const Comparison& one : trial)
        if (!one.pass) return "wrong";
    return "pass";
  }
  static Result<TaskSpec> doubling() {
    return complete_task(backend(), task_of("import torch\nclass Model(torch.nn.Module):\n"
                                            "    def forward(self, x):\n        return x + x\n"
                                            "def get_inputs():\n    return [torch.randn(8, 4)]\n"));
  }
  /// Of the module itself.
  static std::string judge_module(const std::string& module) {
    const auto whole = complete_task(backend(), task_of(module));
    if (!whole.ok()) return whole.error().to_string();
    return judge(*whole, naive_candidate(*whole)->text);
  }
};

TEST_F(OwnTaskTest, ACallThatWarmsUpGetsWhatTheTaskDraws) {
  EXPECT_EQ(judge_module("import torch\nclass Model(torch.nn.Module):\n"
                         "    def forward(self, x, d, heads, scale):\n"
                         "        assert int(d.min()) > 0 and float(x.min()) > 1 and scale == 0.5\n"
                         "        return x.view(heads, x.shape[0] // heads) * scale, 9 // d\n"
                         "def get_inputs():\n"
                         "    return [torch.rand(12) + 2, torch.randint(1, 4, (99,)), 4, 0.5]\n"),
            "pass");
}

TEST_F(OwnTaskTest, AConstructorGetsTheVeryValuesThatTheTasksModuleGives) {
  const std::string model =
      "import torch\nclass Model(torch.nn.Module):\n"
      "    def __init__(self, kernel, table, bound, kind, seed, names=None):\n"
      "        super().__init__()\n"
      "        assert kernel == (3, 4) and table == {1: 'a', 'b': [None, True]}\n"
      "        assert bound == float('inf') and kind is torch.float64 and seed == 2**64 + 1\n"
      "    def forward(self, x):\n        return x + x\n"
      "def get_inputs():\n    return [torch.randn(3, 4)]\n"
      "VALUES = [(3, 4), {1: 'a', 'b': [None, True]}, float('inf'), torch.float64, 2**64 + 1]\n";
  EXPECT_EQ(judge_module(model + "def get_init_inputs():\n    return VALUES\n"), "pass");
  EXPECT_EQ(
      judge_module(model + "def get_init_inputs():\n"
                           "    return dict(zip(['kernel', 'table', 'bound', 'kind', 'seed'], VALUES))\n"),
      "pass")
      << "by their names";
  EXPECT_THAT(judge_module(model + "def get_init_inputs():\n    return [torch.ones(2)]\n"),
              HasSubstr("get_init_inputs() gives a Tensor"));
}

TEST_F(OwnTaskTest, ParametersAndBuffersMayBeOfAnyTypeAndEmpty) {
  EXPECT_EQ(
      judge_module("import torch\nclass Model(torch.nn.Module):\n"
                   "    def __init__(self):\n"
                   "        super().__init__()\n"
                   "        self.register_buffer('turns', torch.polar(torch.ones(4), torch.rand(4)))\n"
                   "        self.register_buffer('counts', torch.randint(0, 9, (4,), dtype=torch.int16))\n"
                   "        self.register_buffer('nothing', torch.empty(0, 3))\n"
                   "    def forward(self, x):\n"
                   "        return (x * self.turns).real + self.counts + self.nothing.sum()\n"
                   "def get_inputs():\n    return [torch.randn(3, 4)]\n"),
      "pass");
}

TEST_F(OwnTaskTest, NoParameterMayBeLeftOut) {
  const auto whole =
      complete_task(backend(), task_of("import torch\nclass Model(torch.nn.Module):\n"
                                       "    def __init__(self):\n"
                                       "        super().__init__()\n"
                                       "        self.norm = torch.nn.BatchNorm1d(4)\n"
                                       "        self.gate = torch.nn.Parameter(torch.zeros(4))\n"
                                       "    def forward(self, x):\n        return self.norm(x) + self.gate\n"
                                       "def get_inputs():\n    return [torch.randn(8, 4)]\n"));
  ASSERT_TRUE(whole.ok()) << whole.error().to_string();
  const auto judge_formula = [&](const std::string& formula) {
    return judge(*whole, std::string(kHead) +
                             "import torch\nclass ModelNew(torch.nn.Module):\n"
                             "    def __init__(self):\n"
                             "        super().__init__()\n"
                             "        self.norm = torch.nn.BatchNorm1d(4)\n"
                             "        self.gate = torch.nn.Parameter(torch.zeros(4))\n"
                             "    def forward(self, x):\n        n = self.norm\n        return " +
                             formula + "\n");
  };
  EXPECT_EQ(
      judge_formula("(x - n.running_mean) * (n.running_var + 1e-5) ** -0.5 * n.weight + n.bias + self.gate"),
      "pass");
  EXPECT_EQ(judge_formula("(x - n.running_mean) * (n.running_var + 1e-5) ** -0.5 * n.weight + n.bias"),
            "wrong");
  EXPECT_EQ(judge_formula("(x - n.running_mean) * (n.running_var + 1e-5) ** -0.5 + self.gate"), "wrong");
  EXPECT_EQ(judge_formula("x * (1 + 1e-5) ** -0.5 * n.weight + n.bias + self.gate"), "wrong");
}

TEST_F(OwnTaskTest, ConstantsNeedBeNoParameters) {
  EXPECT_EQ(judge_module("import torch\nTURN = torch.linspace(-1, 1, 16).view(4, 4)\n"
                         "class Model(torch.nn.Module):\n"
                         "    def __init__(self):\n"
                         "        super().__init__()\n"
                         "        self.sums, self.parts = torch.ones(4, 4).tril(), [torch.eye(4)]\n"
                         "    def forward(self, x):\n"
                         "        y = torch.nn.functional.linear(x, TURN) @ self.sums @ self.parts[0]\n"
                         "        return torch.softmax(y, -1)\n"
                         "def get_inputs():\n    return [torch.randn(8, 4)]\n"),
            "pass");
}

TEST_F(OwnTaskTest, AnExtensionMayBeAskedForInTheFirstCall) {
  const auto whole = doubling();
  ASSERT_TRUE(whole.ok()) << whole.error().to_string();
  const std::string head =
      std::string(kHead) +
      "import torch\n"
      "from torch.utils.cpp_extension import load_inline, CUDAExtension\n"
      "def twice(name):\n"
      "    source = 'torch::Tensor %s(torch::Tensor x) { return x + x; }' % name\n"
      "    return getattr(load_inline(name, source, functions=[name], no_implicit_headers=False), name)\n";
  EXPECT_EQ(judge(*whole, head + "def ModelNew(x):\n    return twice('later')(x)\n"), "pass");
  EXPECT_THAT(judge(*whole, head + "twice('first')\ndef ModelNew(x):\n    return twice('late')(x)\n"),
              AllOf(HasSubstr("late_extension"), HasSubstr("when the module is imported")));
}

/// A build calls a module that names extensions, and leaves what goes wrong there to its first
/// block.
TEST_F(OwnTaskTest, AnEndInABuildsCallIsNoFaultOfTheImport) {
  const auto whole = doubling();
  ASSERT_TRUE(whole.ok()) << whole.error().to_string();
  const std::string head = std::string(kHead) + "import os  # load_inline\n";
  EXPECT_THAT(judge(*whole, head + "def ModelNew(x):\n    os._exit(0)\n"),
              AllOf(HasSubstr("exit"), Not(HasSubstr("import"))));
  EXPECT_THAT(judge(*whole, head + "os._exit(0)\n"), HasSubstr("import_exit"));
}

TEST_F(OwnTaskTest, WhatAsksForOtherProgramsGoesOnWithout) {
  const auto whole = doubling();
  ASSERT_TRUE(whole.ok()) << whole.error().to_string();
  EXPECT_EQ(judge(*whole, std::string(kHead) +
                              "import ctypes, ctypes.util, os, platform, subprocess\n"
                              "assert ctypes.CDLL(ctypes.util.find_library('m')).abs(-3) == 3\n"
                              "platform.processor()\n"
                              "for start in (lambda: subprocess.run(['nproc']), lambda: os.system('nproc'),\n"
                              "              lambda: subprocess.run(['nproc'], close_fds=False)):\n"
                              "    try:\n        start()\n    except OSError:\n        pass\n"
                              "def ModelNew(x):\n    return x * 2\n"),
            "pass");
}

TEST_F(OwnTaskTest, ATextMayBeginAsAFileDoes) {
  EXPECT_EQ(judge_module("\xef\xbb\xbf\"\"\"Doubles.\"\"\"\r\nfrom __future__ import annotations\r\n"
                         "import torch\r\nclass Model(torch.nn.Module):\r\n"
                         "    def forward(self, x):\r\n        return x + x\r\n"
                         "def get_inputs():\r\n    return [torch.randn(3, 4)]\r\n"),
            "pass");
}

TEST_F(OwnTaskTest, InputsThatAreNoListAreRefusedAsSuch) {
  EXPECT_THAT(judge_module("import torch\nclass Model(torch.nn.Module):\n"
                           "    def forward(self, x):\n        return x + x\n"
                           "def get_inputs():\n    return torch.randn(3, 4)\n"),
              HasSubstr("get_inputs() gives a Tensor, not a list"));
}

/// Of a module that doubles its input, where that has no negative number.
class PickyReferenceTest : public HostBackendTest {
 protected:
  void SetUp() override {
    HostBackendTest::SetUp();
    if (IsSkipped()) return;
    TaskSpec spec = task_of(
        "import torch\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        if float(x.min()) < 0:\n"
        "            raise ValueError('a negative number')\n"
        "        return x + x\n"
        "def get_inputs():\n    return [torch.rand(4)]\n");
    auto completed = complete_task(backend(), std::move(spec));
    ASSERT_TRUE(completed.ok()) << completed.error().to_string();
    spec_ = *std::move(completed);
    task_ = *lathe::bind(spec_, {});
    reference_ = *backend().make_reference(spec_);
  }

  Result<double> answer(double first) const {
    const std::vector<double> values = {first, 1, 2, 3};
    const std::vector<HostTensor> inputs = {HostTensor::encode(DType::kF32, {4}, values)};
    const auto expected = reference_->evaluate(task_, inputs, {});
    if (!expected.ok()) return expected.error();
    return expected->front().value.data.front();
  }

  TaskSpec spec_;
  BoundTask task_;
  std::unique_ptr<Reference> reference_;
};

TEST_F(PickyReferenceTest, AnswersAgainAfterItHasFailed) {
  EXPECT_EQ(answer(4).value(), 8);
  EXPECT_EQ(answer(5).value(), 10);
  const auto failed = answer(-1);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(failed.error().message, HasSubstr("a negative number"));
  EXPECT_EQ(answer(6).value(), 12);
}

TEST_F(PickyReferenceTest, AnswersManyAtOnce) {
  const Status done = for_each_index(24, [&](int i) -> Status {
    LATHE_TRY(const double doubled, answer(i));
    return doubled == 2 * i ? Status(Ok{}) : Error{ErrorCode::kInternal, "another's answer"};
  });
  EXPECT_TRUE(done.ok()) << done.error().to_string();
}

/// What a candidate's forward() gives for inputs that a test chose.
class ToleranceTest : public HostBackendTest {
 protected:
  /// Of x, in rows of four, the module makes `expression` and the candidate what `candidate` says.
  static Comparison judge(const std::string& expression, const std::string& candidate,
                          const std::vector<double>& x, DType dtype = DType::kF32) {
    const auto rows = static_cast<std::int64_t>(x.size() / kColumns);
    const std::string cast = dtype == DType::kBF16 ? ".bfloat16()" : dtype == DType::kF16 ? ".half()" : "";
    auto completed = complete_task(
        backend(), task_of(fmt::format("import torch\n"
                                       "class Model(torch.nn.Module):\n"
                                       "    def forward(self, x):\n"
                                       "        return {}\n"
                                       "def get_inputs():\n    return [torch.randn({}, {}){}]\n",
                                       expression, rows, kColumns, cast)));
    EXPECT_TRUE(completed.ok()) << completed.error().to_string();
    if (!completed.ok()) return {.pass = false};
    Workload workload;
    workload.task = *lathe::bind(*completed, {});
    const auto reference = backend().make_reference(*completed);
    Trial& trial = workload.trials.emplace_back();
    trial.inputs = {HostTensor::encode(dtype, {rows, kColumns}, x)};
    const auto expected = (*reference)->evaluate(workload.task, trial.inputs, {});
    EXPECT_TRUE(expected.ok()) << expected.error().to_string();
    if (!expected.ok()) return {.pass = false};
    trial.expected = *expected;
    const auto parsed =
        parse_candidate(fmt::format("\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"call\"\n\"\"\"\n"
                                    "import torch\ndef call(x):\n    return {}\n",
                                    candidate),
                        "candidate");
    EXPECT_TRUE(parsed.ok()) << parsed.error().to_string();
    auto session = backend().open(*parsed, {}, *backend().prepare(std::move(workload)));
    EXPECT_TRUE(session.ok()) << session.error().to_string();
    BlockRequest request;
    request.trials = {0};
    request.timeout_seconds = 3;
    const BlockOutcome outcome = (*session)->run(request);
    EXPECT_EQ(outcome.status, BlockStatus::kOk) << outcome.reason << " " << outcome.detail;
    return outcome.outputs.empty() ? Comparison{} : outcome.outputs[0][0];
  }

  /// Rows in which two elements are large, and close to each other.
  static std::vector<double> heavy_tails(double large) {
    std::vector<double> x;
    Rng rng(Seed::from_number(5));
    for (int row = 0; row < 64; ++row) {
      const double top = large * (1 + rng.uniform());
      const std::vector<double> values = {top, rng.uniform(), top - 1.5 * rng.uniform(), -rng.uniform()};
      x.insert(x.end(), values.begin(), values.end());
    }
    return x;
  }

  static constexpr int kColumns = 4;
  static constexpr const char* kSoftmax = "torch.softmax(x, -1)";
  static constexpr const char* kByExp2 =
      "(lambda z: (lambda e: e / e.sum(-1, True))(torch.exp2(z - z.amax(-1, True))))(x * 1.4426950408889634)";
};

TEST_F(ToleranceTest, AllowsWhatRoundingTheInputsChanges) {
  const Comparison scaled_first = judge(kSoftmax, kByExp2, heavy_tails(2e4));
  EXPECT_TRUE(scaled_first.pass) << scaled_first.worst_ratio;
  EXPECT_TRUE(judge(kSoftmax, kSoftmax, heavy_tails(2e4)).pass);
}

TEST_F(ToleranceTest, AllowsNoFewerBitsAndNoOverflow) {
  for (const double large : {1.0, 100.0, 2e4}) {
    for (const char* rounded :
         {"torch.softmax(x.bfloat16(), -1).float()", "torch.softmax(x.half().float(), -1)",
          "torch.softmax(x.bfloat16().float(), -1)"})
      EXPECT_FALSE(judge(kSoftmax, rounded, heavy_tails(large)).pass) << rounded << " at " << large;
  }
  EXPECT_FALSE(judge(kSoftmax, "torch.exp(x) / torch.exp(x).sum(-1, True)", heavy_tails(2e4)).pass);
}

TEST_F(ToleranceTest, AllowsNoNoise) {
  EXPECT_FALSE(judge(kSoftmax, "torch.softmax((x > 10) * 100.0, -1)", heavy_tails(4e6)).pass);
}

TEST_F(ToleranceTest, AllowsNoOtherSideOfAJump) {
  const std::vector<double> x = {2.5, 0.25, -3.5, 4000.75, 1.5, 6.5, 8.125, -0.5};
  EXPECT_TRUE(judge("torch.round(x)", "torch.round(x)", x).pass);
  EXPECT_FALSE(judge("torch.round(x)", "torch.floor(x + 0.5)", x).pass);
  EXPECT_FALSE(judge("(x >= 2.5) * x.abs().max()", "(x > 2.5) * x.abs().max()", x).pass);
  EXPECT_FALSE(judge("torch.sign(x - 2.5) + x", "torch.sign(x - 2.4) + x", x).pass);
}

/// Holds of the given inputs, and of none that were moved.
const std::string kKeptByFp32 = "x == torch.from_numpy(x.numpy().astype('float32').astype('float64'))";

TEST_F(ToleranceTest, IsThatOfTheInputsWhereMovedOnesFail) {
  const std::vector<double> x = heavy_tails(2e4);
  const std::string written_out =
      "(torch.exp(x - x.amax(-1, True)) / torch.exp(x - x.amax(-1, True)).sum(-1, True))";
  const std::string picky = written_out + " if bool((" + kKeptByFp32 + ").all()) else [][0]";
  EXPECT_TRUE(judge(picky, kSoftmax, x).pass);
  EXPECT_FALSE(judge(picky, kByExp2, x).pass);
  const std::string not_a_number = written_out + " * torch.where(" + kKeptByFp32 + ", 1.0, float('nan'))";
  EXPECT_TRUE(judge(not_a_number, kSoftmax, x).pass);
  EXPECT_FALSE(judge(not_a_number, kByExp2, x).pass);
}

TEST_F(ToleranceTest, OfASoftmaxKnowsWhatItsLargestInputsLose) {
  const std::vector<double> x = heavy_tails(2e4);
  EXPECT_TRUE(judge("torch.softmax(x, -1) if bool((" + kKeptByFp32 + ").all()) else [][0]", kByExp2, x).pass);
}

TEST_F(ToleranceTest, MovesInputsWithinTheirRange) {
  const std::vector<double> x = heavy_tails(2e4);
  const auto largest = static_cast<float>(std::ranges::max(x));
  EXPECT_TRUE(
      judge(fmt::format("torch.softmax(x, -1) if float(x.max()) <= {:.17g} else [][0]", largest), kByExp2, x)
          .pass);
}

TEST_F(ToleranceTest, IsKnownForInputsOfSixteenBits) {
  for (const char* narrow : {"half", "bfloat16"}) {
    auto completed = complete_task(
        backend(), task_of(fmt::format("import torch\n"
                                       "class Model(torch.nn.Module):\n"
                                       "    def forward(self, x):\n"
                                       "        return (x.float() * 2).{0}()\n"
                                       "def get_inputs():\n    return [torch.randn(32, 64).{0}()]\n",
                                       narrow)));
    ASSERT_TRUE(completed.ok()) << completed.error().to_string();
    const auto reference = backend().make_reference(*completed);
    const auto sample = draw_sample(**reference, *lathe::bind(*completed, {}), Distribution::kNormal,
                                    Seed::from_number(3), {});
    EXPECT_TRUE(sample.ok()) << sample.error().to_string();
  }
}

/// A normalisation in fp32 of values of 16 bits, with a mean that is off by a factor.
std::string normalised_with_mean_times(double factor) {
  return fmt::format(
      "(lambda f: (f - f.mean(-1, True) * {:.9f}) / torch.sqrt(f.var(-1, False, True) + 1e-6))"
      "(x.float()).to(x.dtype)",
      factor);
}

TEST_F(ToleranceTest, IsWhatSumsLoseOfEqualLargeValues) {
  std::vector<double> rows_of_one_value;
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < kColumns; ++column) rows_of_one_value.push_back(300 + 2.25 * row);
  const std::vector<double> one_value(64, 412), with_offset = {300, 304, 296, 302, 310, 300, 306, 300};
  const std::string module = normalised_with_mean_times(1);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const std::vector<double>& x : {rows_of_one_value, one_value, with_offset}) {
      EXPECT_TRUE(judge(module, module, x, dtype).pass);
      const Comparison rounded = judge(module, normalised_with_mean_times(1 + 4 * 0x1p-24), x, dtype);
      EXPECT_TRUE(rounded.pass) << rounded.got << " " << rounded.worst_ratio;
      EXPECT_FALSE(judge(module, normalised_with_mean_times(1.01), x, dtype).pass);
    }
  }
}

TEST_F(ToleranceTest, IsThatOfCountsAndMasksWithoutMoves) {
  const std::vector<double> counts = {1, 3, 0, 2, 40, 2, 1, 7};
  const std::string cancels = "torch.exp(1e7 * (x - x.round()))";
  EXPECT_FALSE(judge(cancels, "torch.ones_like(x) * 1.01", counts).pass);
}

TEST_F(ToleranceTest, IsWhatSumsLoseOfOneValueInFp32) {
  const std::vector<double> x(64, 400.3);
  const char* const norm = "torch.nn.functional.layer_norm(x, (4,))";
  const std::string by_hand =
      "(lambda d: d / torch.sqrt((d * d).mean(-1, True) + 1e-5))(x - x.mean(-1, True) * {})";
  EXPECT_TRUE(judge(norm, fmt::format(fmt::runtime(by_hand), "1.0000002"), x).pass);
  EXPECT_FALSE(judge(norm, fmt::format(fmt::runtime(by_hand), "1.001"), x).pass);
}

TEST_F(ToleranceTest, IsKnownWithoutTheRoundingsThatAModuleAsksFor) {
  const std::vector<double> x = heavy_tails(2);
  for (const char* to : {"half", "bfloat16"}) {
    const std::string rounded = fmt::format("(x.{0}() * torch.sigmoid(x.{1}()).{0}()).float()", to,
                                            std::string(to) == "half" ? "float" : to);
    for (const std::string& exact : {std::string("x * torch.sigmoid(x)"),
                                     std::string("(x.double() * torch.sigmoid(x.double())).float()"),
                                     fmt::format("(x * torch.sigmoid(x)).{}().float()", to),
                                     fmt::format("(lambda h: h * torch.sigmoid(h))(x.{}().float())", to)})
      EXPECT_TRUE(judge(rounded, exact, x).pass) << rounded << " by " << exact;
    for (const char* wrong : {"x * torch.sigmoid(x) * 1.2", "x.relu()", "x", "x * torch.sigmoid(2 * x)"})
      EXPECT_FALSE(judge(rounded, wrong, x).pass) << rounded << " by " << wrong;
  }
}

TEST_F(ToleranceTest, IsAnyWhereATypeThatAModuleAsksForIsTooSmall) {
  const std::vector<double> x = {1, 2, 3, 1e6, 0.5, -7, 0.25, 8};
  const std::string halves = "(x * 1.0).half().float()";
  EXPECT_TRUE(judge(halves, halves, x).pass);
  EXPECT_TRUE(judge(halves, "x * 1.0", x).pass);
  EXPECT_FALSE(judge(halves, "x * 1.1", x).pass);
}

TEST_F(ToleranceTest, IsKnownOfModulesThatMixTypesOrLookAtBits) {
  const std::vector<double> x = heavy_tails(3);
  EXPECT_TRUE(judge("x.float() @ torch.eye(4)", "x + 0", x).pass);
  EXPECT_FALSE(judge("x.float() @ torch.eye(4)", "x * 1.01", x).pass);
  EXPECT_TRUE(judge("x.float().view(torch.int32).view(torch.float32)", "x + 0", x).pass);
  EXPECT_FALSE(judge("x.float().view(torch.int32).view(torch.float32)", "x * 1.01", x).pass);
}

TEST_F(ToleranceTest, AllowsNoRoundingOfWholeNumbersThatAModuleRounds) {
  const std::vector<double> x = {2.5, 0.25, -3.5, 41.5, 1.5, 6.5, 8.125, -0.5};
  const char* const rounds = "torch.round(x.float() * 3).to(torch.int32)";
  EXPECT_TRUE(judge(rounds, rounds, x).pass);
  EXPECT_FALSE(judge(rounds, "torch.floor(x * 3 + 0.5).to(torch.int32)", x).pass);
}

TEST_F(ToleranceTest, AllowsTheIndexThatAModulesOwnPrecisionGivesOrAnExactOne) {
  const std::vector<double> alike_in_fp32 = {1e-9, 3e-9, 2e-9, 0, 0.5, 2, 1, -1};
  for (const char* module : {"torch.softmax(x, -1).argmax(-1)", "torch.softmax(x.float(), -1).argmax(-1)"}) {
    EXPECT_TRUE(judge(module, "torch.softmax(x, -1).argmax(-1)", alike_in_fp32).pass) << module;
    EXPECT_TRUE(judge(module, "x.argmax(-1)", alike_in_fp32).pass) << module;
    for (const char* wrong : {"x.argmin(-1)", "x.argmax(-1) * 0", "x.argmax(-1) + 1"})
      EXPECT_FALSE(judge(module, wrong, alike_in_fp32).pass) << module << " by " << wrong;
  }
}

TEST_F(ToleranceTest, AllowsEachOrderOfEqualValuesThatPyTorchLeavesOpen) {
  const std::vector<double> ties = {2, 2, 2, 2, 1, 3, 3, 0, 5, 4, 3, 2};
  const std::string first = "torch.sort(x, dim=-1, descending=True, stable=True)[1][:, :2]",
                    last = "(3 - torch.sort(x.flip(-1), dim=-1, descending=True, stable=True)[1][:, :2])";
  for (const std::string module : {"torch.topk(x, 2)[1]", "torch.sort(x, -1, descending=True)[1][:, :2]",
                                   "torch.argsort(x, -1, descending=True)[:, :2]"}) {
    EXPECT_TRUE(judge(module, module, ties).pass) << module;
    EXPECT_TRUE(judge(module, first, ties).pass) << module;
    EXPECT_TRUE(judge(module, last, ties).pass) << module;
    EXPECT_FALSE(judge(module, "torch.topk(x, 2, largest=False)[1]", ties).pass) << module;
    EXPECT_FALSE(judge(module, first + ".flip(-1)", ties).pass) << "of those that are not equal, " << module;
  }
  EXPECT_TRUE(judge("x.gather(-1, torch.topk(x * 0, 1)[1])", "x[:, :1]", ties).pass) << "what is chosen";
  EXPECT_TRUE(judge("x.gather(-1, torch.topk(x * 0, 1)[1])", "x[:, 3:]", ties).pass) << "what is chosen";
  EXPECT_FALSE(judge(first, last, ties).pass) << "a stable sort leaves nothing open";
  EXPECT_FALSE(judge("x.argmax(-1)", last + "[:, 0]", ties).pass) << "nor does argmax";
}

TEST_F(ToleranceTest, OfALossHangsOnNoLuckOfTheModules) {
  const std::string module =
      "torch.nn.functional.kl_div(torch.log_softmax(x, -1), torch.softmax(x * 1.01, -1), "
      "reduction='batchmean')";
  const std::string by_logarithms =
      "(lambda p, q: (q.exp() * (q - p)).sum() / x.shape[0])(x - x.logsumexp(-1, True), "
      "x * 1.01 - (x * 1.01).logsumexp(-1, True))";
  for (const std::uint64_t seed : {5, 6, 17}) {
    Rng rng(Seed::from_number(seed));
    std::vector<double> x(256);
    for (double& value : x) value = rng.normal();
    const Comparison right = judge(module, by_logarithms, x);
    EXPECT_TRUE(right.pass) << right.worst_ratio << " at " << seed;
    EXPECT_FALSE(judge(module, module + " * 1.5", x).pass);
  }
}

TEST_F(ToleranceTest, OfALossOfEqualRowsHangsOnNoLuckOfTheModulesOperations) {
  const std::string given = "torch.log_softmax(x, -1)", nearby = "(x * 1.015625, -1)";
  const std::string module =
      "torch.nn.functional.kl_div(" + given + ", torch.softmax" + nearby + ", reduction='batchmean')";
  const auto candidate = [&](const std::string& logarithm) {
    return "(lambda g, w: (w.exp() * (w - g)).sum() / x.shape[0])(" + given + ", " + logarithm + ")";
  };
  std::vector<double> x;
  for (int row = 0; row < 64; ++row) x.insert(x.end(), {0, 0.3369140625, 0, 0});
  EXPECT_TRUE(judge(module, candidate("torch.log_softmax" + nearby), x).pass);
  EXPECT_FALSE(judge(module, candidate("torch.log_softmax" + nearby + ".bfloat16().float()"), x).pass);
  const std::vector<double> ties = {1, 2, 3, 4};
  EXPECT_FALSE(judge("(x * 2 >= 6).float().sum()", "(x * 2 > 6).float().sum()", ties).pass)
      << "nor on a jump";
}

TEST_F(ToleranceTest, IsThatOfADictsValuesByNameOrInOrder) {
  const std::vector<double> x = {1, 2, 3, 4};
  EXPECT_TRUE(judge("{'y': x + x}", "{'z': x * 2}", x).pass);
  EXPECT_FALSE(judge("{'y': x + x}", "{'y': x * 3}", x).pass);
  EXPECT_TRUE(judge("{'output1': x + x, 'output0': x * 3}", "(x * 3, x + x)", x).pass);
}

TEST_F(ToleranceTest, AllowsNoOtherDrawOfAModuleThatDrawsNumbers) {
  const std::string drawn = "x * 0 + torch.rand(64, 1, dtype=torch.float64).to(x.dtype)";
  EXPECT_FALSE(judge(drawn, "x * 0", heavy_tails(1)).pass);
}

TEST_F(HostBackendTest, AReferencesModuleIsConfinedToo) {
  const auto refused = complete_task(backend(), task_of("import os\nos.fork()\n"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("forbidden system call"));
  EXPECT_TRUE(complete_task(backend(), fixture_->spec).ok()) << "the next one is none the worse";
}

/// On a processor as on a GPU, where starting processes is dear.
class FewProcessesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    HostBackendOptions options;
    options.cache_folder = testing::TempDir() + "lathe-host-cache";
    options.few_processes = true;
    backend_ = std::make_unique<Result<std::unique_ptr<Backend>>>(make_host_backend(options));
  }
  static void TearDownTestSuite() { backend_.reset(); }
  void SetUp() override {
    if (!backend_->ok()) GTEST_SKIP() << backend_->error().to_string();
    const auto spec = parse_task_text({"name = \"twice\"\ndims = { n = [1, 64] }\n[reference]\n"
                                       "kind = \"process\"\nsource = \"twice.py\"\n"
                                       "[[tensor]]\nname = \"x\"\nshape = [\"n\"]\n"
                                       "[[output]]\nname = \"y\"\nshape = [\"n\"]\n"
                                       "[[shape]]\nn = 16\n",
                                       "import torch\nclass Model(torch.nn.Module):\n"
                                       "    def forward(self, x):\n        return x + x\n"},
                                      "task");
    ASSERT_TRUE(spec.ok()) << spec.error().to_string();
    spec_ = *spec;
    workloads_ = {workload(16, false), workload(5, false)};
  }

  static Backend& backend() { return ***backend_; }

  std::shared_ptr<const Workload> workload(std::int64_t n, bool timed) {
    Workload made;
    made.task = *lathe::bind(spec_, {{"n", n}});
    made.timed = timed;
    const auto reference = backend().make_reference(spec_);
    for (std::uint64_t i = 0; i < 4; ++i) {
      auto sample = draw_sample(**reference, made.task, Distribution::kNormal, Seed::from_number(i), {});
      EXPECT_TRUE(sample.ok()) << sample.error().to_string();
      made.trials.push_back({Distribution::kNormal, (*sample)->inputs, (*sample)->expected});
    }
    return *backend().prepare(std::move(made));
  }

  static Candidate module(const std::string& before, const std::string& body) {
    return *parse_candidate(
        "\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"ModelNew\"\n\"\"\"\nimport torch\n" + before +
            "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n" + body,
        "candidate");
  }

  /// Both shapes, each in parts and as a whole, as they are verified.
  std::vector<BlockOutcome> verify(const Candidate& candidate) {
    const Artifact nothing;
    const std::vector<Backend::Opening> openings = {{&nothing, workloads_[0]}, {&nothing, workloads_[1]}};
    auto sessions = backend().open_together(candidate, openings, {});
    EXPECT_TRUE(sessions.ok()) << sessions.error().to_string();
    std::vector<BlockOutcome> outcomes;
    for (const auto& session : *sessions)
      for (const auto& trials : {std::vector{1}, std::vector{3, 0}, std::vector{2, 1, 3, 0}})
        outcomes.push_back(session->run({.trials = trials, .timeout_seconds = 3}));
    return outcomes;
  }

  static std::int64_t started(const std::string& purpose) { return backend().usage().stages[purpose].count; }
  static bool passes(const BlockOutcome& outcome) {
    return outcome.status == BlockStatus::kOk && std::ranges::all_of(outcome.outputs, [](const auto& trial) {
             return std::ranges::all_of(trial, &Comparison::pass);
           });
  }

  static std::unique_ptr<Result<std::unique_ptr<Backend>>> backend_;
  TaskSpec spec_;
  std::vector<std::shared_ptr<const Workload>> workloads_;
};
std::unique_ptr<Result<std::unique_ptr<Backend>>> FewProcessesTest::backend_;

TEST_F(FewProcessesTest, TwoProcessesVerifyAllShapesAndNoneMeetsATrialTwice) {
  const std::int64_t before = started("candidates blocks");
  for (const BlockOutcome& outcome : verify(module("", "        return x * 2\n")))
    EXPECT_TRUE(passes(outcome)) << outcome.reason << " " << outcome.detail;
  EXPECT_EQ(started("candidates blocks") - before, 2);
  const std::string remembers =
      "        key = float(x[0])\n        if key in known: return x\n        known[key] = 1\n        return "
      "x * 2\n";
  for (const BlockOutcome& outcome : verify(module("known = {}\n", remembers)))
    EXPECT_TRUE(passes(outcome)) << "it met an input again";
}

TEST_F(FewProcessesTest, AShapeThatAProcessCannotGoOnWithHasAFreshOne) {
  const std::string once = "import sys\nif hasattr(sys, 'seen'): raise RuntimeError('again')\nsys.seen = 1\n";
  const std::int64_t before = started("candidates blocks");
  for (const BlockOutcome& outcome : verify(module(once, "        return x * 2\n")))
    EXPECT_TRUE(passes(outcome)) << outcome.reason << " " << outcome.detail;
  EXPECT_EQ(started("candidates blocks") - before, 4);
}

TEST_F(FewProcessesTest, WhatIsWrongAtAFurtherShapeIsWrong) {
  const auto outcomes = verify(module("", "        return x * 2 if len(x) == 16 else x\n"));
  for (std::size_t i = 0; i < outcomes.size(); ++i) EXPECT_EQ(passes(outcomes[i]), i < 3) << i;
}

TEST_F(FewProcessesTest, TimedBlocksShareAProcessAndThatOfABaselineIsKeptUntilAVerification) {
  const auto timed = workload(16, true);
  const Candidate twice = module("", "        return x * 2\n");
  const std::int64_t candidates = started("candidates timed blocks");
  const std::int64_t baselines = started("baselines timed blocks");
  for (int evaluation = 0; evaluation < 2; ++evaluation) {
    const auto candidate = *backend().open(twice, {}, timed);
    const auto baseline = *backend().open(twice, {}, timed, {Runner::kShared});
    for (int block = 0; block < 3; ++block)
      for (Session* session : {candidate.get(), baseline.get()})
        EXPECT_TRUE(passes(session->run({.trials = {0, 2}, .timeout_seconds = 3, .timed = true})));
  }
  EXPECT_EQ(started("candidates timed blocks") - candidates, 2);
  EXPECT_EQ(started("baselines timed blocks") - baselines, 1);
  (void)verify(twice);
  const auto baseline = *backend().open(twice, {}, timed, {Runner::kShared});
  EXPECT_TRUE(passes(baseline->run({.trials = {0, 2}, .timeout_seconds = 3, .timed = true})));
  EXPECT_EQ(started("baselines timed blocks") - baselines, 2)
      << "another one for those behind a verification";
}

TEST_F(FewProcessesTest, AProcessThatGotReadyRunsTheFirstTimedBlockAndNoCandidateCodeBefore) {
  const auto timed = workload(16, true);
  const std::string clock = "import time\nimported = time.monotonic()\n";
  const auto session = *backend().open(
      module(clock, "        return x * 2 if time.monotonic() - imported < 1 else x\n"), {}, timed);
  const std::int64_t before = started("candidates timed blocks");
  session->get_ready();
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_TRUE(passes(session->run({.trials = {0, 2}, .timeout_seconds = 3, .timed = true})));
  EXPECT_EQ(started("candidates timed blocks") - before, 1);
}

TEST_F(FewProcessesTest, TheZygoteOfATimedProcessServesAgainOnceThatHasEnded) {
  const auto timed = workload(16, true);
  const std::int64_t before = started("candidates zygote");
  for (int factor = 2; factor < 8; ++factor) {
    const auto session =
        *backend().open(module("", fmt::format("        return x * {}\n", factor)), {}, timed);
    const BlockOutcome outcome = session->run({.trials = {0, 2}, .timeout_seconds = 3, .timed = true});
    EXPECT_EQ(passes(outcome), factor == 2) << "each program is its own";
  }
  EXPECT_LE(started("candidates zygote") - before, 1);
}

TEST_F(FewProcessesTest, OneProcessBuildsAllShapes) {
  const std::int64_t before = started("candidates build");
  const BoundTask* const tasks[] = {&workloads_[0]->task, &workloads_[1]->task};
  EXPECT_TRUE(backend().build_together(module("", "        return x * 2\n"), tasks, {})->ok);
  EXPECT_EQ(started("candidates build") - before, 1);
}

}  // namespace
}  // namespace lathe
