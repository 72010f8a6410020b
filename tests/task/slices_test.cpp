#include "task/slices.h"

#include <fmt/format.h>

#include "task/compare.h"
#include "task/generate_inputs.h"
#include "tests/task/shipped_tasks.h"

namespace lathe {
namespace {

TaskSpec shipped(const std::string& name) {
  auto task = load_task(LATHE_SOURCE_DIR "/tasks/" + name + ".toml");
  EXPECT_TRUE(task.ok()) << task.error().to_string();
  return *std::move(task);
}

std::unique_ptr<Reference> reference_of(const TaskSpec& spec) {
  auto reference = make_reference(spec);
  EXPECT_TRUE(reference.ok());
  return *std::move(reference);
}

std::string dim_of(const std::string& name) {
  const TaskSpec spec = shipped(name);
  return independent_dim(spec, *reference_of(spec)).value_or("none");
}

TaskSpec small_task(const std::string& graph) {
  auto spec = parse_task(fmt::format(R"(
name = "small"
dims = {{ rows = [1, 300], cols = [1, 300] }}
tensor = [{{ name = "x", shape = ["rows", "cols"] }}]
graph = """
{}
"""
shape = [{{ name = "s", rows = 16, cols = 32 }}]
)",
                                     graph),
                         "small.toml");
  EXPECT_TRUE(spec.ok()) << spec.error().to_string();
  return *std::move(spec);
}

struct Case {
  TaskSpec spec;
  BoundTask task;
  std::vector<HostTensor> inputs;
};

std::unique_ptr<Case> large(const std::string& name, const Dims& dims) {
  auto made = std::make_unique<Case>();
  made->spec = shipped(name);
  auto bound = lathe::bind(made->spec, dims);
  EXPECT_TRUE(bound.ok()) << bound.error().to_string();
  made->task = *std::move(bound);
  made->inputs = generate_inputs(made->task, Distribution::kNormal, Seed::from_number(3));
  return made;
}

TEST(IndependentDim, IsTheOneThatNoReductionRunsAlong) {
  EXPECT_EQ(dim_of("softmax_rows"), "rows");
  EXPECT_EQ(dim_of("sum_columns"), "cols");
  EXPECT_EQ(dim_of("gemm_square"), "M");
  EXPECT_EQ(dim_of("cross_entropy"), "none");
  EXPECT_EQ(dim_of("mse_loss"), "none");
}

TEST(IndependentDim, IsNotOneWhoseIndicesMeet) {
  const auto dim = [](const std::string& graph) {
    const TaskSpec spec = small_task(graph);
    return independent_dim(spec, *reference_of(spec)).value_or("none");
  };
  EXPECT_EQ(dim("y = softmax(x, axis=1)"), "rows");
  EXPECT_EQ(dim("y = softmax(x, axis=0)"), "none") << "columns are independent, but not the first axis";
  EXPECT_EQ(dim("y = cumsum(x, axis=0)"), "none");
  EXPECT_EQ(dim("y = argsort(x)"), "rows");
  EXPECT_EQ(dim("y = argsort(x, axis=0)"), "none");
}

TEST(IndependentDim, IsNotOneThatIndicesSelect) {
  for (const std::string graph : {"y = scatter_add(x, i, z)", "y = bincount(i, bins = \\\"rows\\\")"}) {
    const bool adds = graph.find("add") != std::string::npos;
    const auto spec = parse_task(
        "name = \"selected\"\ndims = { rows = [2, 300], items = [2, 300] }\ntensor = [" +
            std::string(
                adds ? "{ name = \"x\", shape = [\"rows\", 3] }, { name = \"z\", shape = [\"items\", 3] }, "
                     : "") +
            "{ name = \"i\", shape = [\"items\"], role = \"index\", gen = { kind = \"index\", limit = "
            "\"rows\" } }]\n"
            "graph = \"" +
            graph + "\"\nshape = [{ rows = 16, items = 32 }]\n",
        "selected.toml");
    ASSERT_TRUE(spec.ok()) << spec.error().to_string();
    EXPECT_EQ(independent_dim(*spec, *reference_of(*spec)).value_or("none"), "none") << graph;
  }
}

TEST(IndependentDim, IsNotOneAlongWhichPositionsAreCounted) {
  for (const auto& [positions, dim] : {std::pair("shape = [\\\"rows\\\", 1], axis = 0", "none"),
                                       std::pair("shape = [\\\"cols\\\"]", "rows")}) {
    const auto spec = parse_task(
        std::string("name = \"far\"\ndims = { rows = [1, 1048576], cols = [1, 1048576] }\n"
                    "tensor = [{ name = \"x\", shape = [\"rows\", \"cols\"] }]\ngraph = \"p = iota(") +
            positions +
            ")\\nm = ge(p, value = 100000)\\nz = neg(x)\\ny = where(m, z, x)\"\nshape = [{ rows = 16, cols = "
            "32 "
            "}]\n",
        "far.toml");
    ASSERT_TRUE(spec.ok()) << spec.error().to_string();
    EXPECT_EQ(independent_dim(*spec, *reference_of(*spec)).value_or("none"), dim)
        << "no shape that is tried has so many";
  }
}

TEST(SlicedReference, SaysOfALargeTaskWhatTheWholeSays) {
  const auto it = large("softmax_rows", {{"rows", 4096}, {"cols", 640}});
  const auto whole = reference_of(it->spec)->evaluate(it->task, it->inputs, {});
  const auto sliced = make_sliced(reference_of(it->spec), it->spec)->evaluate(it->task, it->inputs, {});
  ASSERT_TRUE(whole.ok() && sliced.ok());
  EXPECT_EQ((*whole)[0].value.data, (*sliced)[0].value.data);
  EXPECT_EQ((*whole)[0].value.err, (*sliced)[0].value.err);
  EXPECT_EQ((*sliced)[0].value.shape, it->task.shape_of("y"));
}

TEST(SlicedReference, APartLiesWhereItSays) {
  const auto it = large("gemm_square", {{"M", 3000}, {"N", 40}, {"K", 64}});
  const auto reference = make_sliced(reference_of(it->spec), it->spec);
  const auto whole = reference->evaluate(it->task, it->inputs, {});
  ASSERT_TRUE(whole.ok());
  const auto& all = (*whole)[0].value.data;
  std::set<std::size_t> firsts, known_elements;
  for (std::uint64_t secret = 0; secret < 60; ++secret) {
    const auto part = reference->evaluate_part(it->task, it->inputs, {}, {9000, secret});
    ASSERT_TRUE(part.ok());
    const Expected& known = (*part)[0];
    EXPECT_EQ(known.elements(), all.size());
    ASSERT_EQ(known.value.data.size(), 225u * 40u);
    EXPECT_EQ(known.known.size(), 5u) << "of some 2048 elements each";
    known.for_ranges(0, known.value.data.size(), [&](const KnownRange& range) {
      for (std::size_t i = 0; i < range.count; ++i) {
        ASSERT_EQ(known.value.data[range.value + i], all[range.element + i]);
        known_elements.insert(range.element + i);
      }
    });
    firsts.insert(known.known.front().element);
  }
  EXPECT_GT(firsts.size(), 20u) << "each secret has places of its own";
  EXPECT_GT(known_elements.size(), all.size() * 7 / 8) << "and any element may be known";
  EXPECT_NEAR(reference->part_share(it->task, 9000), 225.0 / 3000, 1e-9);
}

TEST(SlicedReference, APartOfAnOrderIsJudgedByItsOwnLines) {
  const TaskSpec spec = small_task("y = argsort(x)");
  const BoundTask task = *lathe::bind(spec, {{"rows", 300}, {"cols", 300}});
  const auto inputs = generate_inputs(task, Distribution::kNormal, Seed::from_number(3));
  const auto reference = make_sliced(reference_of(spec), spec);
  const auto whole = reference->evaluate(task, inputs, {});
  const auto part = reference->evaluate_part(task, inputs, {}, {9000, 1});
  ASSERT_TRUE(whole.ok() && part.ok());
  const Expected& known = (*part)[0];
  ASSERT_FALSE(known.known.empty());
  const auto passes = [&](const std::vector<double>& indices) {
    return compare(known, HostTensor::encode(DType::kI64, {300, 300}, indices).bytes, nullptr).pass;
  };
  std::vector<double> indices = (*whole)[0].value.data;
  EXPECT_TRUE(passes(indices));
  const std::size_t last = known.known.back().element + known.known.back().count - 1;
  std::swap(indices[last], indices[last - 1]);
  EXPECT_FALSE(passes(indices));
  indices[last - 1] = indices[last];
  EXPECT_FALSE(passes(indices));
}

TEST(SlicedReference, OfFewRowsAllIsKnown) {
  const auto it = large("gemm_square", {{"M", 31}, {"N", 40}, {"K", 64}});
  const auto reference = make_sliced(reference_of(it->spec), it->spec);
  const auto part = reference->evaluate_part(it->task, it->inputs, {}, {40, 1});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ((*part)[0].value.data.size(), 31u * 40u);
  EXPECT_EQ(reference->part_share(it->task, 40), 1.0);
}

TEST(SlicedReference, OfRowsThatTakeLongFourAreKnown) {
  const auto it = large("gemm_square", {{"M", 16}, {"N", 8192}, {"K", 8192}});
  ASSERT_GT(it->task.flops, 2e9);
  const auto reference = make_sliced(reference_of(it->spec), it->spec);
  EXPECT_EQ(reference->part_share(it->task, 40), 4.0 / 16);
}

TEST(SlicedReference, GivesAllOfATaskThatDoesNotFallApart) {
  const auto it = large("mse_loss", shipped("mse_loss").shapes.front().dims);
  const auto reference = make_sliced(reference_of(it->spec), it->spec);
  const auto part = reference->evaluate_part(it->task, it->inputs, {}, {100, 1});
  ASSERT_TRUE(part.ok());
  EXPECT_TRUE((*part)[0].known.empty());
  EXPECT_EQ(reference->part_share(it->task, 100), 1.0);
}

}  // namespace
}  // namespace lathe
