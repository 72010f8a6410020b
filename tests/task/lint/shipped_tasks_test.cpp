#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "task/lint/lint.h"

namespace lathe {
namespace {

std::vector<std::string> shipped_tasks() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(LATHE_SOURCE_DIR "/tasks")) {
    if (entry.path().extension() == ".toml") paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

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

INSTANTIATE_TEST_SUITE_P(Tasks, ShippedTask, testing::ValuesIn(shipped_tasks()),
                         [](const auto& path) { return std::filesystem::path(path.param).stem().string(); });

TEST(ShippedTasks, AreAtLeastFortyTwo) { EXPECT_GE(shipped_tasks().size(), 42U); }

}  // namespace
}  // namespace lathe
