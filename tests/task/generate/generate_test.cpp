#include "task/generate/generate.h"

#include <gtest/gtest.h>

#include <set>

#include "task/lint/lint.h"

namespace lathe {
namespace {

class GeneratedTask : public testing::TestWithParam<std::uint64_t> {};

TEST_P(GeneratedTask, ParsesAndLintsCleanOnFreshInputs) {
  const Result<std::string> text = generate_task(GetParam());
  ASSERT_TRUE(text.ok()) << text.error().to_string();
  const Result<TaskSpec> spec = parse_task(*text, "generated.toml");
  ASSERT_TRUE(spec.ok()) << spec.error().to_string() << "\n" << *text;
  EXPECT_GE(spec->nodes.size(), 2U);
  const Result<LintReport> report = lint(*spec, Seed::from_number(12345));
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  for (const LintFinding& finding : report->findings) {
    EXPECT_FALSE(finding.fatal) << finding.check << ": " << finding.text << "\n" << *text;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GeneratedTask, testing::Range<std::uint64_t>(0, 30));

TEST(GenerateTask, EqualSeedsGiveEqualTextAndOthersDiffer) {
  const Result<std::string> first = generate_task(1);
  const Result<std::string> again = generate_task(1);
  const Result<std::string> other = generate_task(2);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *other);
}

TEST(GenerateTask, KeepsTheOptions) {
  GenerateOptions options;
  options.min_nodes = options.max_nodes = 3;
  options.max_elements = 8192;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Result<std::string> text = generate_task(seed, options);
    ASSERT_TRUE(text.ok()) << text.error().to_string();
    const Result<TaskSpec> spec = parse_task(*text, "generated.toml");
    ASSERT_TRUE(spec.ok());
    EXPECT_LE(spec->nodes.size(), 4U) << "a gate is two nodes";
    const Result<BoundTask> task = lathe::bind(*spec, spec->shapes.front().dims);
    for (const auto& [name, shape] : task->shapes)
      EXPECT_LE(element_count(shape), options.max_elements) << name;
  }
}

}  // namespace
}  // namespace lathe
