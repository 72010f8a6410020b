#include "task/bound_task.h"

#include <set>

#include "tests/task/example_tasks.h"

namespace lathe {
namespace {

TEST(Bind, CountsFlopsAndBytes) {
  const TaskSpec spec = task_of(kLinearTask);
  const BoundTask task = bind_first(spec);
  EXPECT_EQ(task.shape_of("y"), (Shape{32, 48}));
  EXPECT_EQ(task.flops, 2.0 * 32 * 48 * 64 + 32 * 48);
  EXPECT_EQ(task.bytes_min, 4.0 * (32 * 64 + 64 * 48 + 48 + 32 * 48));
  EXPECT_EQ(task.site(0).in[1], (Shape{64, 48}));
}

TEST(Bind, RefusesMissingDimsAndHugeTensors) {
  const TaskSpec spec = task_of(kLinearTask);
  EXPECT_FALSE(lathe::bind(spec, Dims{{"M", 4}}).ok());
  EXPECT_FALSE(lathe::bind(spec, Dims{{"M", 1 << 20}, {"N", 4}, {"K", 1 << 20}}).ok());
  EXPECT_FALSE(lathe::bind(spec, Dims{{"M", 0}, {"N", 4}, {"K", 4}}).ok());
}

TEST(HiddenShapes, AreFreshDistinctAndSmall) {
  const TaskSpec spec = task_of(kLinearTask);
  const std::vector<Dims> shapes = draw_hidden_shapes(spec, Seed::from_number(7), 8, 1e5);
  ASSERT_EQ(shapes.size(), 8U);
  EXPECT_EQ(std::set<Dims>(shapes.begin(), shapes.end()).size(), 8U);
  bool has_odd = false;
  for (const Dims& dims : shapes) {
    const Result<BoundTask> task = lathe::bind(spec, dims);
    ASSERT_TRUE(task.ok());
    EXPECT_LE(task->flops, 1e5);
    EXPECT_NE(dims, spec.shapes[0].dims);
    for (const auto& [name, extent] : dims) has_odd = has_odd || extent % 2 == 1;
  }
  EXPECT_TRUE(has_odd);
  EXPECT_EQ(shapes, draw_hidden_shapes(spec, Seed::from_number(7), 8, 1e5));
  EXPECT_NE(shapes, draw_hidden_shapes(spec, Seed::from_number(8), 8, 1e5));
}

TEST(HiddenShapes, StayInsideTheDomain) {
  const TaskSpec spec =
      task_of(std::string("where = \"K % 16 == 0 && N == 2 * M\"\n") +
              std::string(kLinearTask).replace(std::string(kLinearTask).find("M = 32"), 6, "M = 24"));
  const std::vector<Dims> shapes = draw_hidden_shapes(spec, Seed::from_number(1), 3, 1e9);
  ASSERT_FALSE(shapes.empty());
  for (const Dims& dims : shapes) {
    EXPECT_EQ(dims.at("K") % 16, 0);
    EXPECT_EQ(dims.at("N"), 2 * dims.at("M"));
  }
}

TEST(HiddenShapes, AFixedTaskHasNone) {
  const TaskSpec spec = task_of("fixed = true\n" + std::string(kLinearTask));
  EXPECT_TRUE(draw_hidden_shapes(spec, Seed::from_number(1), 4, 1e9).empty());
}

}  // namespace
}  // namespace lathe
