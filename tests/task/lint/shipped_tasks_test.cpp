#include "tests/task/shipped_tasks.h"

#include "task/lint/lint.h"

namespace lathe {
namespace {

class ShippedTask : public testing::TestWithParam<std::string> {};

TEST_P(ShippedTask, ParsesBindsAndLintsClean) {
  const Result<TaskSpec> spec = load_task(GetParam());
  ASSERT_TRUE(spec.ok()) << spec.error().to_string();
  EXPECT_EQ(spec->name, std::filesystem::path(GetParam()).stem());
  EXPECT_FALSE(spec->description.empty());
  for (const NamedShape& shape : spec->shapes) {
    const Result<BoundTask> task = lathe::bind(*spec, shape.dims);
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    EXPECT_GT(task->bytes_min, 0);
  }
  EXPECT_EQ(draw_hidden_shapes(*spec, Seed::from_number(1), 4, 1e8).size(), 4U);
  const Result<LintReport> report = lint(*spec, Seed::from_number(1));
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  for (const LintFinding& finding : report->findings) {
    EXPECT_FALSE(finding.fatal) << finding.check << ": " << finding.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, ShippedTask, testing::ValuesIn(shipped_task_files()),
                         [](const auto& path) { return std::filesystem::path(path.param).stem().string(); });

TEST(ShippedTasks, AreAtLeastFortyTwo) { EXPECT_GE(shipped_task_files().size(), 42U); }

}  // namespace
}  // namespace lathe
