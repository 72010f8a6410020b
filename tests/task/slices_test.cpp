#include "task/slices.h"

#include <fmt/format.h>

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
  const auto it = large("gemm_square", {{"M", 300}, {"N", 40}, {"K", 64}});
  const auto reference = make_sliced(reference_of(it->spec), it->spec);
  const auto whole = reference->evaluate(it->task, it->inputs, {});
  ASSERT_TRUE(whole.ok());
  const auto& all = (*whole)[0].value.data;
  std::set<std::size_t> places;
  for (const double place : {0.0, 0.3, 0.5, 0.999}) {
    const auto part = reference->evaluate_part(it->task, it->inputs, {}, {900, place});
    ASSERT_TRUE(part.ok());
    const Expected& known = (*part)[0];
    EXPECT_EQ(known.elements(), all.size());
    ASSERT_EQ(known.value.data.size(), 23u * 40u);
    for (std::size_t i = 0; i < known.value.data.size(); ++i)
      ASSERT_EQ(known.value.data[i], all[known.before + i]);
    places.insert(known.before);
  }
  EXPECT_EQ(places.size(), 4u);
  EXPECT_EQ(*places.begin(), 0u) << "from the first part";
  EXPECT_EQ(*places.rbegin(), (300 - 23) * 40u) << "to the last";
  EXPECT_NEAR(reference->part_share(it->task, 900), 23.0 / 300, 1e-9);
}

TEST(SlicedReference, GivesAllOfATaskThatDoesNotFallApart) {
  const auto it = large("mse_loss", shipped("mse_loss").shapes.front().dims);
  const auto reference = make_sliced(reference_of(it->spec), it->spec);
  const auto part = reference->evaluate_part(it->task, it->inputs, {}, {100, 0.5});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ((*part)[0].before + (*part)[0].behind, 0u);
  EXPECT_EQ(reference->part_share(it->task, 100), 1.0);
}

}  // namespace
}  // namespace lathe
