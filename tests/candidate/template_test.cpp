#include "candidate/template.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Template, FillsHolesByName) {
  EXPECT_EQ(expand("for (int $i = 0; $i < ${n}_max; ++$i)", {{"i", "row"}, {"n", "rows"}}),
            "for (int row = 0; row < rows_max; ++row)");
}

TEST(Template, IndentsABlockAsItsHole) {
  EXPECT_EQ(expand(R"(
for (;;) {
  $body
}
)",
                   {{"body", "first();\n\nif (x) {\n  second();\n}\n"}}),
            "for (;;) {\n  first();\n\n  if (x) {\n    second();\n  }\n}\n");
}

TEST(Template, DropsTheLineOfAnEmptyBlock) {
  EXPECT_EQ(expand("{\n  $declaration\n  work();\n}\n", {{"declaration", ""}}), "{\n  work();\n}\n");
}

TEST(Template, EndsABlockWithOneLineBreak) {
  EXPECT_EQ(expand("  $a\n  $b", {{"a", "x;"}, {"b", "y;\n"}}), "  x;\n  y;\n");
}

TEST(Template, LeavesAHoleAmongOtherTextAsItIs) {
  EXPECT_EQ(expand("  $type sum = $start;\n", {{"type", "float"}, {"start", "0"}}), "  float sum = 0;\n");
}

TEST(Template, DoesNotSearchTexts) { EXPECT_EQ(expand("$a", {{"a", "$b\n"}}), "$b\n"); }

TEST(Template, ReportsAHoleThatNothingFills) {
  const auto filled = try_expand("$known $unknown", {{"known", "1"}});
  ASSERT_FALSE(filled.ok());
  EXPECT_NE(filled.error().message.find("'unknown'"), std::string::npos);
}

TEST(Template, ReportsATextThatNoHoleTakes) {
  const auto filled = try_expand("$known", {{"known", "1"}, {"other", "2"}});
  ASSERT_FALSE(filled.ok());
  EXPECT_NE(filled.error().message.find("'other'"), std::string::npos);
}

TEST(Template, TakesOrLeavesSharedTexts) {
  EXPECT_EQ(expand("$a $b", {{"a", "1"}}, {{"b", "2"}, {"c", "3"}}), "1 2");
}

TEST(Template, ReportsADollarWithoutAName) {
  EXPECT_FALSE(try_expand("costs $ 5", {}).ok());
  EXPECT_FALSE(try_expand("${open", {{"open", ""}}).ok());
}

TEST(Template, IndentsLinesThatAreNotEmpty) { EXPECT_EQ(indented("a\n\n b\n"), "  a\n\n   b\n"); }

}  // namespace
}  // namespace lathe
