#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "base/fd.h"
#include "baseline/baseline.h"
#include "baseline/naive/nest.h"
#include "task/compare.h"
#include "task/sample.h"
#include "tests/baseline/candidate_library.h"
#include "tests/baseline/graph_case.h"

namespace lathe {
namespace {

/// All op cases over tensors of one dtype, compiled together.
class NaiveBuild : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::vector<Candidate> candidates;
    for (const GraphCase& graph_case : op_cases()) {
      const auto task = parse_case(retyped(graph_case, GetParam()));
      if (!task.ok()) continue;
      tasks_.push_back(*task);
      auto candidate = naive_candidate(tasks_.back());
      if (!candidate.ok() &&
          GetParam() == std::string("fp64")) {  // of formulas with constants of eight digits
        tasks_.pop_back();
        continue;
      }
      ASSERT_TRUE(candidate.ok()) << graph_case.name << ": " << candidate.error().to_string();
      EXPECT_TRUE(check_plan(*candidate, tasks_.back()).ok()) << graph_case.name;
      candidates.push_back(*std::move(candidate));
    }
    library_ = std::make_unique<CandidateLibrary>(std::move(candidates));
  }

  std::vector<TaskSpec> tasks_;
  std::unique_ptr<CandidateLibrary> library_;
};

TEST(NaiveEmitters, ExistForEveryRegisteredOp) {
  for (const Op* op : all_ops()) EXPECT_NE(naive::find_emitter(*op), nullptr) << op->name();
}

TEST(NaiveEmitters, AreAllTriedByTheCases) {
  std::set<std::string_view> tried;
  for (const GraphCase& graph_case : op_cases())
    for (const NodeDecl& node : make_task(graph_case).nodes) tried.insert(node.op->name());
  for (const Op* op : all_ops()) EXPECT_TRUE(tried.contains(op->name())) << op->name();
}

TEST_P(NaiveBuild, IsWithinTheBoundForEveryOpAndDistribution) {
  EXPECT_GT(tasks_.size(), op_cases().size() * 3 / 4);
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const auto bound = lathe::bind(tasks_[i], tasks_[i].shapes[0].dims);
    ASSERT_TRUE(bound.ok());
    const auto reference = make_reference(tasks_[i]);
    ASSERT_TRUE(reference.ok());
    for (const Distribution distribution : all_distributions()) {
      SCOPED_TRACE(tasks_[i].name + " on " + std::string(name(distribution)));
      const auto sample = draw_sample(**reference, *bound, distribution, Seed::from_number(i));
      ASSERT_TRUE(sample.ok()) << sample.error().to_string();
      if (!*sample) continue;
      const auto outputs = library_->run(i, *bound, (*sample)->inputs);
      ASSERT_TRUE(outputs.ok()) << outputs.error().to_string();
      for (std::size_t k = 0; k < outputs->size(); ++k) {
        const Comparison comparison = compare((*sample)->expected[k], (*outputs)[k], nullptr);
        EXPECT_TRUE(comparison.pass) << comparison.reason << " at " << comparison.first_bad << ": got "
                                     << comparison.got << ", want " << comparison.want << "\n"
                                     << library_->candidate(i).text;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, NaiveBuild, testing::Values("fp32", "fp16", "bf16", "fp64"),
                         [](const auto& given) { return std::string(given.param); });

/// Values far below the smallest normal number of fp16 are rounded to its fixed steps, which large
/// factors show.
TEST(NaiveCheck, HalfPrecisionIsWithinTheBoundWhateverTheSeed) {
  const std::string half = "; dtype = \"fp16\"";
  const std::vector<GraphCase> cases = {
      {"silu_and_mul", {"a: M, N" + half, "b: M, N" + half}, "s = silu(a)\ny = mul(s, b)", "M = 24, N = 40"},
      {"gelu_and_mul", {"a: M, N" + half, "b: M, N" + half}, "s = gelu(a)\ny = mul(s, b)", "M = 24, N = 40"},
      {"sigmoid_and_mul",
       {"a: M, N" + half, "b: M, N" + half},
       "s = sigmoid(a)\ny = mul(s, b)",
       "M = 24, N = 40"},
      {"exp_and_mul", {"a: M, N" + half, "b: M, N" + half}, "s = exp(a)\ny = mul(s, b)", "M = 24, N = 40"},
      {"softmax_and_mul",
       {"a: M, N" + half, "b: M, N" + half},
       "s = softmax(a)\ny = mul(s, b)",
       "M = 24, N = 40"},
      {"mul_and_sum",
       {"a: M, N" + half, "b: M, N" + half},
       "s = mul(a, b)\ny = sum(s, axis = -1)",
       "M = 24, N = 40"},
  };
  std::vector<TaskSpec> tasks;
  std::vector<Candidate> candidates;
  for (const GraphCase& graph_case : cases) {
    tasks.push_back(make_task(graph_case));
    candidates.push_back(*naive_candidate(tasks.back()));
  }
  const CandidateLibrary library(std::move(candidates));
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto bound = lathe::bind(tasks[i], tasks[i].shapes[0].dims);
    const auto reference = make_reference(tasks[i]);
    for (const Distribution distribution : all_distributions()) {
      int failures = 0;
      for (std::uint64_t seed = 0; seed < 40; ++seed) {
        const auto sample = draw_sample(**reference, *bound, distribution, Seed::from_number(seed));
        ASSERT_TRUE(sample.ok());
        if (!*sample) continue;
        const auto outputs = library.run(i, *bound, (*sample)->inputs);
        failures += compare((*sample)->expected[0], (*outputs)[0], nullptr).pass ? 0 : 1;
      }
      EXPECT_EQ(failures, 0) << tasks[i].name << " on " << name(distribution);
    }
  }
}

TEST(NaiveCheck, ComputesInFp64WhereTheTaskDoes) {
  const std::string wide = "x: M, N; dtype = \"fp64\"", above_zero = wide + "\ngen = { kind = \"positive\" }";
  std::vector<GraphCase> cases;
  for (const char* op :
       {"exp",         "expm1",      "tanh",     "sigmoid",     "erf",        "sin",        "cos",
        "silu",        "softplus",   "mish",     "elu",         "tan",        "atan",       "sinh",
        "cosh",        "exp2",       "selu",     "log_sigmoid", "softshrink", "hardshrink", "softmax",
        "log_softmax", "layer_norm", "rms_norm", "cumsum",      "abs",        "neg"})
    cases.push_back({op, {wide}, std::string("y = ") + op + "(x)", "M = 7, N = 40"});
  for (const char* op : {"log", "log1p", "log2", "sqrt", "rsqrt", "reciprocal"})
    cases.push_back({op, {above_zero}, std::string("y = ") + op + "(x)", "M = 7, N = 40"});
  for (const char* op : {"asin", "acos"})
    cases.push_back(
        {op, {wide + "\ngen = { kind = \"uniform\" }"}, std::string("y = ") + op + "(x)", "M = 7, N = 40"});
  cases.push_back({"scaled", {wide}, "a = scale(x, by = 0.1)\ny = sum(a, axis = 1)", "M = 7, N = 40"});
  cases.push_back({"norm", {wide}, "y = norm(x, axis = 1)", "M = 7, N = 40"});
  std::vector<TaskSpec> tasks;
  std::vector<Candidate> candidates;
  for (const GraphCase& graph_case : cases) {
    tasks.push_back(make_task(graph_case));
    auto candidate = naive_candidate(tasks.back());
    ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
    candidates.push_back(*std::move(candidate));
  }
  const CandidateLibrary library(std::move(candidates));
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto bound = lathe::bind(tasks[i], tasks[i].shapes[0].dims);
    const auto sample =
        draw_sample(**make_reference(tasks[i]), *bound, Distribution::kNormal, Seed::from_number(i));
    ASSERT_TRUE(sample.ok() && *sample) << tasks[i].name;
    const auto outputs = library.run(i, *bound, (*sample)->inputs);
    const Comparison comparison = compare((*sample)->expected[0], (*outputs)[0], nullptr);
    EXPECT_TRUE(comparison.pass) << tasks[i].name << ": " << comparison.worst_ratio << "\n"
                                 << library.candidate(i).text;
  }
  EXPECT_FALSE(naive_candidate(make_task({"gelu", {wide}, "y = gelu(x)", "M = 7, N = 40"})).ok());
}

/// One running sum of fp32 is off by up to 56 times the tolerance here.
TEST(NaiveCheck, LongSumsAreWithinTheBound) {
  std::vector<TaskSpec> tasks;
  std::vector<Candidate> candidates;
  for (
      const std::string body :
      {"dims = { k = [1, 1048576] }\ntensor = [{ name = \"a\", shape = [1, \"k\"] }, { name = \"b\", shape = "
       "[\"k\", 2] }]\ngraph = \"y = matmul(a, b)\"\nshape = [{ k = 1048576 }]\n",
       "dims = { k = [1, 1048576] }\ntensor = [{ name = \"a\", shape = [1, \"k\"] }, { name = \"b\", shape = "
       "[2, \"k\"] }]\ngraph = \"y = linear(a, b)\"\nshape = [{ k = 1048576 }]\n",
       "dims = { k = [1, 2097152] }\ntensor = [{ name = \"x\", shape = [1, \"k\"] }]\n"
       "graph = \"y = cumsum(x, axis = 1)\"\nshape = [{ k = 2097152 }]\n",
       "dims = { k = [512, 1024] }\ntensor = [{ name = \"x\", shape = [1, 1, \"k\", \"k\"] }]\n"
       "graph = \"y = avg_pool2d(x, kernel = 512)\"\nshape = [{ k = 512 }]\n",
       "dims = { k = [1, 16384] }\ntensor = [{ name = \"x\", shape = [1, \"k\", 8, 8] }, { name = \"w\", "
       "shape = "
       "[1, \"k\", 8, 8] }]\ngraph = \"y = conv2d(x, w)\"\nshape = [{ k = 16384 }]\n",
       "dims = { k = [1, 32768] }\ntensor = [{ name = \"q\", shape = [2, 4] }, { name = \"x\", shape = "
       "[\"k\", 4] }, "
       "{ name = \"v\", shape = [\"k\", 300] }]\ngraph = \"y = attention(q, x, v)\"\nshape = [{ k = 32768 "
       "}]\n",
       "dims = { k = [1, 2097152] }\ntensor = [{ name = \"x\", shape = [\"k\", 2] }, { name = \"t\", shape = "
       "[\"k\"], "
       "role = \"index\", gen = { kind = \"index\", limit = 2 } }]\ngraph = \"y = cross_entropy(x, "
       "t)\"\nshape = [{ k = "
       "2097152 }]\n"}) {
    const auto task =
        parse_task("name = \"long_" + std::to_string(tasks.size()) + "\"\n" + body, "long.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    tasks.push_back(*task);
    candidates.push_back(*naive_candidate(tasks.back()));
  }
  CandidateLibrary library(std::move(candidates));
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto bound = lathe::bind(tasks[i], tasks[i].shapes[0].dims);
    const auto reference = make_reference(tasks[i]);
    for (const Distribution distribution : {Distribution::kOffset, Distribution::kLarge}) {
      SCOPED_TRACE(tasks[i].name + " on " + std::string(name(distribution)));
      const auto sample = draw_sample(**reference, *bound, distribution, Seed::from_number(i));
      ASSERT_TRUE(sample.ok() && *sample);
      const auto outputs = library.run(i, *bound, (*sample)->inputs);
      ASSERT_TRUE(outputs.ok()) << outputs.error().to_string();
      EXPECT_TRUE(compare((*sample)->expected[0], (*outputs)[0], nullptr).pass) << library.candidate(i).text;
    }
  }
}

TEST(NaiveCheck, CatchesAWrongKernel) {
  const TaskSpec task = make_task({"softmax", {"x: M, N"}, "y = softmax(x)", "M = 7, N = 31"});
  std::string text = naive_candidate(task)->text;
  const std::string right = "i < n_N";
  text.replace(text.rfind(right), right.size(), "i < 16");
  std::vector<Candidate> candidates{*parse_candidate(text, "wrong")};
  const CandidateLibrary library(std::move(candidates));
  const auto bound = lathe::bind(task, task.shapes[0].dims);
  const auto inputs = generate_inputs(*bound, Distribution::kNormal, Seed::from_number(1));
  const auto expected = (*make_reference(task))->evaluate(*bound, inputs, Numerics{});
  EXPECT_FALSE(compare((*expected)[0], (*library.run(0, *bound, inputs))[0], nullptr).pass);
}

std::string index_of(const std::string& limit) {
  return "i: N; role = \"index\"\ngen = { kind = \"index\", limit = " + limit + " }";
}

/// A task's most nodes are no more steps, buffers and text than a plan may have.
TEST(NaiveCheck, TheLongestTasksHaveOne) {
  std::string graph;
  std::string value = "x";
  for (int i = 1; i <= 512; ++i) {
    const std::string next = "h" + std::to_string(i);
    graph += next + (i % 2 == 0 ? " = attention(" + value + ", x, x)\n" : " = layer_norm(" + value + ")\n");
    value = next;
  }
  std::string sums;
  value = "b";
  for (int i = 1; i <= 512; ++i) {
    const std::string next = "h" + std::to_string(i);
    sums += next + " = scatter_add(" + value + ", i, x)\n";
    value = next;
  }
  const TaskSpec tasks[] = {
      make_task({"longest", {"x: B, L, D"}, graph, "B = 2, L = 5, D = 4"}),
      make_task({"longest_sums", {"b: V", index_of("\"V\""), "x: N"}, sums, "V = 2, N = 5"})};
  for (const TaskSpec& task : tasks)
    for (const Dialect dialect : {Dialect::kCpu, Dialect::kCuda}) {
      const auto naive = naive_candidate(task, dialect);
      ASSERT_TRUE(naive.ok()) << naive.error().to_string();
      const Status checked = check_plan(*naive, task);
      EXPECT_TRUE(checked.ok()) << checked.error().to_string();
    }
}

/// Places times items would be seventy milliards.
TEST(NaiveCheck, SumsByIndexTakeAsLongAsTheirPlacesAndItems) {
  const std::string extents = "V = 262144, N = 262144";
  const std::vector<TaskSpec> tasks = {
      make_task({"sums", {"b: V", index_of("\"V\""), "x: N"}, "y = scatter_add(b, i, x)", extents}),
      make_task({"counts", {index_of("\"V\"")}, "y = bincount(i, bins = \"V\")", extents})};
  const CandidateLibrary library({*naive_candidate(tasks[0]), *naive_candidate(tasks[1])});
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto bound = lathe::bind(tasks[i], tasks[i].shapes[0].dims);
    const auto inputs = generate_inputs(*bound, Distribution::kNormal, Seed::from_number(1));
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(library.run(i, *bound, inputs).ok());
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    EXPECT_LT(spent.count(), 5) << "some milliseconds on a quiet machine";
  }
}

TEST(NaiveCheck, AnIndexOutsideLeadsNowhere) {
  const std::string far = "s = scale(t, by = 1e6)\ni = cast(s, dtype = \"int32\")\n";
  const TaskSpec task =
      make_task({"outside", {"b: V", "t: N", "x: N"}, far + "y = scatter_add(b, i, x)", "V = 3, N = 100"});
  const CandidateLibrary library({*naive_candidate(task)});
  const auto bound = lathe::bind(task, task.shapes[0].dims);
  const auto inputs = generate_inputs(*bound, Distribution::kNormal, Seed::from_number(1));
  const auto outputs = library.run(0, *bound, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.error().to_string();
  EXPECT_EQ(outputs->front(), inputs[0].bytes);
}

TEST(NaiveNative, IsTheReferencesOwnSourceInFp32) {
  const std::string folder = testing::TempDir();
  ASSERT_TRUE(write_file_atomically(folder + "/scale.cpp", R"(
extern "C" void reference(const double* const* in, double* const* out, const long long* dims) {
  for (long long i = 0; i < dims[0]; ++i) out[0][i] = in[0][i] * in[1][0];
})")
                  .ok());
  const auto task = parse_task(R"(name = "scale"
reference = "native"
source = "scale.cpp"
dims = ["N"]
tensor = [{ name = "x", shape = ["N"] }, { name = "alpha", role = "scalar" }]
output = [{ name = "y", shape = ["N"] }]
shape = [{ N = 17 }])",
                               folder + "/scale.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  const auto baselines = make_baselines(*task);
  ASSERT_TRUE(baselines.ok()) << baselines.error().to_string();
  ASSERT_EQ(baselines->size(), 1u);
  const CandidateLibrary library({baselines->front().candidate});
  const auto bound = lathe::bind(*task, task->shapes[0].dims);
  const auto inputs = generate_inputs(*bound, Distribution::kNormal, Seed::from_number(1));
  const auto expected = (*make_reference(*task))->evaluate(*bound, inputs, Numerics{});
  EXPECT_TRUE(compare((*expected)[0], (*library.run(0, *bound, inputs))[0], nullptr).pass);
}

TEST(NaiveNative, ConvertsOperandsThatAreNotFp32) {
  const std::string folder = testing::TempDir();
  ASSERT_TRUE(write_file_atomically(folder + "/steps.cpp", R"(
extern "C" void reference(const double* const* in, double* const* out, const long long* dims) {
  for (long long i = 0; i < dims[0] * dims[1]; ++i) {
    out[0][i] = in[1][i] * 3 + in[2][0];
    out[1][i] = in[0][i] * in[3][0] + in[4][i];
  }
})")
                  .ok());
  const auto task = parse_task(R"(name = "steps"
reference = "native"
source = "steps.cpp"
dims = { N = [1, 64], M = [1, 64] }
tensor = [
  { name = "x", shape = ["N", "M"], dtype = "bf16" },
  { name = "seed", shape = ["N", "M"], dtype = "int32", gen = { kind = "uniform", low = 0, high = 500000000 } },
  { name = "first", role = "scalar", dtype = "int32", value = 7 },
  { name = "alpha", role = "scalar" },
  { name = "b", shape = ["N", "M"] },
]
output = [
  { name = "steps", shape = ["N", "M"], dtype = "int32" },
  { name = "y", shape = ["N", "M"], dtype = "fp16" },
]
shape = [{ N = 17, M = 3 }])",
                               folder + "/steps.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  const auto baselines = make_baselines(*task);
  ASSERT_TRUE(baselines.ok()) << baselines.error().to_string();
  EXPECT_EQ(baseline_names(*task), std::vector<std::string>{"naive"});
  const CandidateLibrary library({baselines->front().candidate});
  const auto bound = lathe::bind(*task, task->shapes[0].dims);
  const auto inputs = generate_inputs(*bound, Distribution::kNormal, Seed::from_number(1));
  const auto expected = (*make_reference(*task))->evaluate(*bound, inputs, Numerics{});
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  const auto outputs = library.run(0, *bound, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.error().to_string();
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(compare((*expected)[i], (*outputs)[i], nullptr).pass) << i;
}

}  // namespace
}  // namespace lathe
