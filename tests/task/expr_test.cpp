#include "task/expr.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"

namespace lathe {
namespace {

std::int64_t value_of(std::string_view text, const Dims& names = {}) {
  const Result<Expr> expr = Expr::parse(text);
  if (!expr.ok()) {
    ADD_FAILURE() << expr.error().to_string();
    return -1;
  }
  const Result<std::int64_t> value = expr->evaluate(names);
  if (!value.ok()) {
    ADD_FAILURE() << value.error().to_string();
    return -1;
  }
  return *value;
}

TEST(Expr, FollowsTheOperatorPrecedenceOfC) {
  EXPECT_EQ(value_of("1 + 2 * 3"), 7);
  EXPECT_EQ(value_of("(1 + 2) * 3"), 9);
  EXPECT_EQ(value_of("20 - 5 - 3"), 12);
  EXPECT_EQ(value_of("1 << 2 + 1"), 8);
  EXPECT_EQ(value_of("1 + 1 == 2 && 3 < 4"), 1);
  EXPECT_EQ(value_of("0 || 1 && 0"), 0);
  EXPECT_EQ(value_of("!0 + 1"), 2);
  EXPECT_EQ(value_of("-7 / 2"), -3);
  EXPECT_EQ(value_of("-7 % 3"), -1);
  EXPECT_EQ(value_of("1 ? 2 : 0 ? 3 : 4"), 2);
  EXPECT_EQ(value_of("a <= b ? a : b", {{"a", 5}, {"b", 9}}), 5);
}

TEST(Expr, KnowsCdivMinMaxAlign) {
  EXPECT_EQ(value_of("cdiv(M, 64)", {{"M", 65}}), 2);
  EXPECT_EQ(value_of("cdiv(-6, 2)"), -3);
  EXPECT_EQ(value_of("align(M, 32)", {{"M", 33}}), 64);
  EXPECT_EQ(value_of("min(max(3, 9), 7)"), 7);
}

TEST(Expr, CountsItsTermsWithoutOverflow) {
  EXPECT_EQ(Expr::parse("M")->terms(), 1);
  EXPECT_EQ(Expr::parse("-cdiv(M + 1, 64)")->terms(), 6);
  EXPECT_EQ(Expr::parse("M > 2 ? K : 3 * N")->terms(), 8);
  Expr doubled = Expr::symbol("M");
  for (int i = 0; i < 100; ++i) doubled = doubled + doubled;
  EXPECT_EQ(doubled.terms(), std::numeric_limits<std::int32_t>::max());
}

TEST(Expr, EvaluatesOnlyTheBranchThatIsTaken) {
  EXPECT_EQ(value_of("K == 0 ? 0 : M / K", {{"K", 0}, {"M", 4}}), 0);
  EXPECT_EQ(value_of("K != 0 && M / K > 1", {{"K", 0}, {"M", 4}}), 0);
}

TEST(Expr, ReportsFaultsInsteadOfUndefinedBehaviour) {
  const Dims names = {{"min", 0}, {"z", 0}, {"big", INT64_MAX}, {"small", INT64_MIN}, {"m", -1}};
  for (const char* text :
       {"big + 1", "small - 1", "big * 2", "-small", "small / m", "small % m", "1 / z", "1 % z", "cdiv(1, z)",
        "align(1, z)", "align(big, 64)", "1 << 63", "big << 1", "1 << m", "1 >> 64", "nobody"}) {
    const Result<Expr> expr = Expr::parse(text);
    ASSERT_TRUE(expr.ok()) << text;
    EXPECT_FALSE(expr->evaluate(names).ok()) << text;
  }
}

TEST(Expr, RejectsMalformedText) {
  for (const char* text : {"", "1 +", "(1", "1)", "1 2", "a b", "foo(1, 2)", "min(1)", "min", "1 ? 2", "1.5",
                           "0x10", "9223372036854775808", "a = 1", "a & b", "\"a\"", "cdiv(1,2,3)"}) {
    EXPECT_FALSE(Expr::parse(text).ok()) << text;
  }
}

TEST(Expr, BoundsLengthAndDepth) {
  EXPECT_FALSE(Expr::parse(std::string(5000, '1')).ok());
  EXPECT_FALSE(Expr::parse(std::string(100, '(') + "1" + std::string(100, ')')).ok());
  EXPECT_FALSE(Expr::parse(std::string(1000, '-') + "1").ok());
  EXPECT_FALSE(Expr::parse(std::string(1000, '!') + "x").ok());
  std::string selects = "x";
  for (int i = 0; i < 100; ++i) selects = "x ? x : " + selects;
  EXPECT_FALSE(Expr::parse(selects).ok());
  std::string chain = "x";
  for (int i = 0; i < 2000; ++i) chain += "+x";
  EXPECT_EQ(value_of(chain, {{"x", 1}}), 2001);
}

TEST(Expr, PointsAtTheColumnOfTheFault) {
  const Result<Expr> expr = Expr::parse("M + $", {"t.toml", 3, 10});
  ASSERT_FALSE(expr.ok());
  EXPECT_EQ(expr.error().where.line, 3);
  EXPECT_EQ(expr.error().where.column, 14);
  EXPECT_FALSE(expr.error().hint.empty());
}

TEST(Expr, FoldsConstantsAndNeutralElements) {
  const Expr m = Expr::symbol("M");
  EXPECT_EQ((m * Expr::constant(1) + Expr::constant(0)).to_string(), "M");
  EXPECT_EQ((Expr::constant(6) / Expr::constant(4)).to_string(), "1");
  EXPECT_EQ(Expr::apply("cdiv", m, Expr::constant(1)).to_string(), "M");
  EXPECT_FALSE((Expr::constant(1) / Expr::constant(0)).is_constant());
  EXPECT_TRUE((Expr::constant(2) + Expr::constant(3)).is_constant());
}

TEST(Expr, PrintsMinusSignsAsC) {
  EXPECT_EQ(Expr::parse("---K - -5")->to_string(), "- - -K - -5");
  EXPECT_EQ(Expr::parse("-(a * b)")->to_string(), "-(a * b)");
  EXPECT_EQ(Expr::parse("2 - (0 - 9223372036854775807 - 1)")->to_string(), "2 - (-9223372036854775807 - 1)");
}

TEST(Expr, SubstitutesNames) {
  const Expr expr = *Expr::parse("M * K + N");
  const Expr bound = expr.substitute({{"M", Expr::constant(3)}, {"K", *Expr::parse("N + 1")}});
  EXPECT_EQ(bound.to_string(), "3 * (N + 1) + N");
  EXPECT_EQ(bound.symbols(), std::set<std::string>{"N"});
  EXPECT_EQ(expr.symbols(), (std::set<std::string>{"K", "M", "N"}));
}

std::string random_text(Rng& rng, int depth) {
  const auto leaf = [&] {
    static const char* const kLeaves[] = {"a", "b", "c", "0", "1", "2", "7", "9223372036854775807"};
    return std::string(kLeaves[rng.below(8)]);
  };
  if (depth == 0 || rng.chance(0.15)) return leaf();
  const auto sub = [&] { return random_text(rng, depth - 1); };
  static const char* const kInfix[] = {"+",  "-", "*",  "/",  "%",  "<<", ">>", "<",
                                       "<=", ">", ">=", "==", "!=", "&&", "||"};
  static const char* const kCalls[] = {"cdiv", "min", "max", "align"};
  switch (rng.below(8)) {
    case 0:
      return "(" + sub() + ")";
    case 1:
      return "-" + sub();
    case 2:
      return "!" + sub();
    case 3:
      return std::string(kCalls[rng.below(4)]) + "(" + sub() + ", " + sub() + ")";
    case 4:
      return "(" + sub() + " ? " + sub() + " : " + sub() + ")";
    default:
      return "(" + sub() + ") " + kInfix[rng.below(15)] + " " + sub();
  }
}

TEST(Expr, ToStringParsesBackToAnEqualExpression) {
  Rng rng(Seed::from_number(1));
  for (int round = 0; round < 5000; ++round) {
    const std::string text = random_text(rng, 4);
    const Result<Expr> expr = Expr::parse(text);
    ASSERT_TRUE(expr.ok()) << text;
    const std::string printed = expr->to_string();
    const Result<Expr> again = Expr::parse(printed);
    ASSERT_TRUE(again.ok()) << text << " printed as " << printed;
    EXPECT_EQ(again->to_string(), printed);
    const Dims names = {{"a", rng.between(-9, 9)}, {"b", rng.between(0, 100)}, {"c", INT64_MIN}};
    const Result<std::int64_t> want = expr->evaluate(names);
    const Result<std::int64_t> got = again->evaluate(names);
    ASSERT_EQ(want.ok(), got.ok()) << text << " printed as " << printed;
    if (want.ok()) {
      EXPECT_EQ(*want, *got) << text << " printed as " << printed;
    }
  }
}

}  // namespace
}  // namespace lathe
