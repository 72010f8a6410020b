#include "task/reference.h"

#include <cmath>

#include "task/compare.h"
#include "task/generate_inputs.h"
#include "tests/task/example_tasks.h"

namespace lathe {
namespace {

std::vector<Expected> reference_of(const BoundTask& task, std::span<const HostTensor> inputs) {
  const auto reference = make_reference(*task.spec);
  EXPECT_TRUE(reference.ok());
  Result<std::vector<Expected>> expected = (*reference)->evaluate(task, inputs, Numerics{});
  EXPECT_TRUE(expected.ok());
  return *std::move(expected);
}

/// kLinearTask as a careless person would write it, in fp32.
std::vector<double> naive_linear(const BoundTask& task, std::span<const HostTensor> inputs) {
  const auto [m, n, k] = std::tuple(task.dims.at("M"), task.dims.at("N"), task.dims.at("K"));
  const std::vector<double> x = inputs[0].decode();
  const std::vector<double> w = inputs[1].decode();
  const std::vector<double> b = inputs[2].decode();
  std::vector<double> y;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += static_cast<float>(x[static_cast<std::size_t>(i * k + l)]) *
               static_cast<float>(w[static_cast<std::size_t>(l * n + j)]);
      }
      y.push_back(sum + static_cast<float>(b[static_cast<std::size_t>(j)]));
    }
  }
  return y;
}

TEST(GraphReference, ANaiveKernelStaysInsideTheBoundOnEveryDistribution) {
  const TaskSpec spec = task_of(kLinearTask);
  const BoundTask task = bind_first(spec);
  for (const Distribution distribution : all_distributions()) {
    const auto inputs = generate_inputs(task, distribution, Seed::from_number(9));
    const std::vector<Expected> expected = reference_of(task, inputs);
    const HostTensor got = HostTensor::encode(DType::kF32, task.shape_of("y"), naive_linear(task, inputs));
    const Comparison result = compare(expected[0], got.bytes, nullptr);
    EXPECT_TRUE(result.pass) << name(distribution) << ": " << result.got << " for " << result.want;
    EXPECT_LT(result.worst_ratio, 0.9) << name(distribution);
  }
}

TEST(GraphReference, TheProbeShowsHalfPrecisionInputs) {
  const TaskSpec spec = task_of(kLinearTask);
  const BoundTask task = bind_first(spec);
  const auto inputs = generate_inputs(task, Distribution::kProbe, Seed::from_number(9));
  const std::vector<Expected> expected = reference_of(task, inputs);
  std::vector<HostTensor> rounded = inputs;
  const std::vector<double> x = inputs[0].decode();
  const HostTensor half = HostTensor::encode(DType::kF16, inputs[0].shape, x);
  rounded[0] = HostTensor::encode(DType::kF32, inputs[0].shape, half.decode());
  const HostTensor got = HostTensor::encode(DType::kF32, task.shape_of("y"), naive_linear(task, rounded));
  EXPECT_EQ(compare(expected[0], got.bytes, nullptr).reason, "bound");
}

TEST(GraphReference, ArgmaxBringsItsSourceWithTheAxisLast) {
  const TaskSpec spec = task_of(R"toml(
name = "columns"
dims = ["r", "c"]
tensor = [{ name = "x", shape = ["r", "c"] }]
graph = "i = argmax(x, axis = 0)"
shape = [{ r = 3, c = 2 }])toml");
  EXPECT_EQ(spec.outputs[0].compare, CompareKind::kArgmax);
  const BoundTask task = bind_first(spec);
  const std::vector<HostTensor> inputs = {
      HostTensor::encode(DType::kF32, {3, 2}, std::vector<double>{1, 6, 5, 2, 3, 4})};
  const std::vector<Expected> expected = reference_of(task, inputs);
  EXPECT_EQ(expected[0].value.data, (std::vector<double>{1, 0}));
  EXPECT_EQ(expected[0].source.data, (std::vector<double>{1, 5, 3, 6, 2, 4}));
}

TEST(GraphReference, ArgsortBringsItsSourceAndTheBoundsOfTheRanks) {
  const TaskSpec spec = task_of(R"toml(
name = "columns"
dims = { r = [2, 9], c = [1, 9] }
tolerance = 2
tensor = [{ name = "x", shape = ["r", "c"] }]
graph = """
e = add(x, x)
i = argsort(e, axis = 0, descending = true)
j = slice(i, axis = 0, stop = 2)
"""
output = [{ name = "i" }, { name = "j" }]
shape = [{ r = 3, c = 2 }])toml");
  const BoundTask task = bind_first(spec);
  const std::vector<HostTensor> inputs = {
      HostTensor::encode(DType::kF32, {3, 2}, std::vector<double>{0.25, 1.5, 1.25, 0.5, 0.75, 1})};
  const std::vector<Expected> expected = reference_of(task, inputs);
  for (const Expected& ranks : expected) {
    EXPECT_EQ(ranks.compare, CompareKind::kArgsort);
    EXPECT_EQ(ranks.source.data, (std::vector<double>{0.5, 2.5, 1.5, 3, 1, 2}));
    EXPECT_EQ(ranks.source.err[1], 2 * 2.5 * 0x1p-24);
    EXPECT_EQ(ranks.line_stride, 2U);
    EXPECT_EQ(ranks.value.err[0], 2 * 2.5 * 0x1p-24) << "of the largest value";
  }
  EXPECT_EQ(expected[0].value.data, (std::vector<double>{1, 0, 2, 2, 0, 1}));
  EXPECT_EQ(expected[1].value.data, (std::vector<double>{1, 0, 2, 2}));
  EXPECT_EQ(expected[0].line_length, 3U);
  EXPECT_EQ(expected[1].line_length, 2U);
}

TEST(GraphReference, AnIndexIsJudgedByWhatWasInATensorThatIsOverwritten) {
  const TaskSpec spec = task_of(R"toml(
name = "overwritten"
dims = ["n"]
tensor = [{ name = "x", shape = ["n"], role = "inout" }]
graph = """
i = argmax(x)
j = argsort(x)
x = neg(x)
"""
output = [{ name = "i" }, { name = "j" }, { name = "x" }]
shape = [{ n = 3 }])toml");
  const BoundTask task = bind_first(spec);
  const std::vector<HostTensor> inputs = {HostTensor::encode(DType::kF32, {3}, std::vector<double>{1, 6, 5})};
  const std::vector<Expected> expected = reference_of(task, inputs);
  EXPECT_EQ(expected[0].source.data, (std::vector<double>{1, 6, 5}));
  EXPECT_EQ(expected[1].source.data, (std::vector<double>{1, 6, 5}));
}

TEST(GraphReference, AMutantReplacesItsOp) {
  const TaskSpec spec = task_of(kLinearTask);
  const BoundTask task = bind_first(spec);
  const auto inputs = generate_inputs(task, Distribution::kNormal, Seed::from_number(9));
  const OpMutant zeros{"zeros", [](const OpSite& site, std::span<const Value* const>, Value& out) {
                         out.data.assign(static_cast<std::size_t>(element_count(site.out)), 0.0);
                       }};
  const auto values = evaluate_graph(task, inputs, Numerics{}, {"h", &zeros});
  ASSERT_TRUE(values.ok());
  EXPECT_EQ(values->at("y").data[5], inputs[2].decode()[5]);
}

TEST(GraphReference, AnFp64TaskIsHeldToFp64) {
  const TaskSpec spec = task_of(R"toml(
name = "doubles"
dims = ["n"]
tensor = [{ name = "x", shape = ["n"], dtype = "fp64" }]
graph = "y = exp(x)"
shape = [{ n = 16 }])toml");
  const BoundTask task = bind_first(spec);
  const auto inputs = generate_inputs(task, Distribution::kNormal, Seed::from_number(9));
  const Expected expected = reference_of(task, inputs)[0];
  EXPECT_LT(expected.value.err[0], 1e-13 * std::fabs(expected.value.data[0]));
}

/// y of one query of one head, by the definition.
std::vector<double> attended(std::span<const std::vector<double>> qkv, std::int64_t row,
                             std::int64_t length) {
  constexpr std::int64_t kDepth = 4;
  const auto at = [&](std::size_t tensor, std::int64_t of, std::int64_t d) {
    return qkv[tensor][static_cast<std::size_t>(of * kDepth + d)];
  };
  const std::int64_t head = row / length * length;
  std::vector<double> sums(kDepth);
  double total = 0;
  for (std::int64_t key = head; key <= row; ++key) {
    double score = 0;
    for (std::int64_t d = 0; d < kDepth; ++d) score += at(0, row, d) * at(1, key, d);
    const double weight = std::exp(score / 2);
    total += weight;
    for (std::int64_t d = 0; d < kDepth; ++d) sums[static_cast<std::size_t>(d)] += weight * at(2, key, d);
  }
  for (double& sum : sums) sum /= total;
  return sums;
}

TEST(GraphReference, LongCausalAttentionIsTheDefinitionsAtEveryPartOfItsQueries) {
  const TaskSpec spec = *parse_task(R"toml(
name = "long_attention"
dims = ["H", "S"]
tensor = [
  { name = "q", shape = ["H", "S", 4] }, { name = "k", shape = ["H", "S", 4] }, { name = "v", shape = ["H", "S", 4] },
]
graph = "y = attention(q, k, v, causal = true)"
[[shape]]
name = "long"
H = 2
S = 1500
)toml",
                                    "long_attention.toml");
  const auto task = lathe::bind(spec, spec.shapes[0].dims);
  const auto inputs = generate_inputs(*task, Distribution::kNormal, Seed::from_number(1));
  const std::vector<std::vector<double>> qkv = {inputs[0].decode(), inputs[1].decode(), inputs[2].decode()};
  const auto expected = (*make_reference(spec))->evaluate(*task, inputs, {});
  ASSERT_TRUE(expected.ok());
  const std::vector<double>& y = (*expected)[0].value.data;
  for (const std::int64_t row : {0, 1, 698, 699, 1397, 1398, 1499, 1500, 2198, 2199, 2999}) {
    const auto want = attended(qkv, row, 1500);
    for (std::size_t d = 0; d < want.size(); ++d)
      EXPECT_NEAR(y[static_cast<std::size_t>(row) * 4 + d], want[d], 1e-12) << row;
  }
}

}  // namespace
}  // namespace lathe
