#include "task/attrs.h"

#include <gtest/gtest.h>

#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

TEST(Attrs, GiveTheFallbackWhenAbsent) {
  const Attrs none;
  EXPECT_EQ(none.integer("axis", -1), -1);
  EXPECT_EQ(none.real("eps", 0.5), 0.5);
  EXPECT_TRUE(none.flag("causal", true));
  EXPECT_EQ(none.text("approximate", "none"), "none");
  EXPECT_EQ(none.integers("perm", {1, 2}), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(none.expression("start", Expr::constant(3))->to_string(), "3");
}

TEST(Attrs, AnIntegerServesAsARealAndAsAList) {
  const Attrs given = attrs({{"by", 2}});
  EXPECT_EQ(given.real("by", 0), 2.0);
  EXPECT_EQ(given.integers("by", {}), std::vector<std::int64_t>{2});
}

TEST(Attrs, ExpressionsGetTheirValuesWhenBound) {
  const Attrs given =
      attrs({{"start", "K / 2"}, {"shape", std::vector<std::string>{"K * 3", "-1"}}, {"how", "K"}});
  const std::vector<AttrRule> rules{
      {"start", AttrKind::kInteger}, {"shape", AttrKind::kIntegers}, {"how", AttrKind::kText}};
  const Result<Attrs> bound = given.bind(rules, {{"K", 8}});
  ASSERT_TRUE(bound.ok()) << bound.error().to_string();
  EXPECT_EQ(bound->integer("start", 0), 4);
  EXPECT_EQ(bound->integers("shape", {}), (std::vector<std::int64_t>{24, -1}));
  EXPECT_EQ(bound->text("how", ""), "K");
}

TEST(Attrs, BindingNeedsEveryDim) {
  const Attrs given = attrs({{"start", "K / 2"}});
  EXPECT_FALSE(given.bind({{"start", AttrKind::kInteger}}, {}).ok());
}

}  // namespace
}  // namespace lathe
