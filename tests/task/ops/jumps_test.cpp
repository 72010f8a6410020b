#include "task/ops/support/jumps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "task/telling.h"
#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

/// The op on one element, its inputs given with their errors.
struct Given {
  double value;
  double error = 0;
};
struct Taken {
  double value;
  double error;
};
Taken take(std::string_view name, std::vector<Given> in, Attrs attributes = {}) {
  OpCase op_case;
  op_case.op = name;
  op_case.attrs = std::move(attributes);
  std::vector<Value> values;
  for (const Given& given : in) {
    op_case.in.push_back({1});
    values.push_back({{1}, {given.value}, {}});
    if (given.error > 0) values.back().err = {given.error};
  }
  const Value out = evaluate(op_case, values, Numerics{.unit_roundoff = 0});
  return {out.data[0], out.error_at(0)};
}

/// 27 * 58 / 54 is 29, and 28.9999981 where 58 / 54 was rounded to fp32 before.
TEST(UpsampleNearest, TakesEitherElementWhereARoundedFactorLeadsToTheOneBefore) {
  OpCase op_case;
  op_case.op = "upsample_nearest1d";
  op_case.in = {{1, 1, 58}};
  op_case.attrs = attrs({{"size", std::vector<std::int64_t>{54}}});
  Value x{{1, 1, 58}, std::vector<double>(58), {}};
  for (std::size_t i = 0; i < 58; ++i) x.data[i] = static_cast<double>(i * i);
  const Value y = evaluate(op_case, {x}, Numerics{.unit_roundoff = 0});
  for (std::size_t i = 0; i < 54; ++i) {
    const std::size_t from = i * 58 / 54;
    EXPECT_EQ(y.data[i], x.data[from]) << i;
    EXPECT_EQ(y.error_at(i), i == 27 ? x.data[29] - x.data[28] : 0) << i;
  }
}

TEST(Round, TakesTiesToTheEvenNumber) {
  for (const auto& [x, want] :
       {std::pair{0.5, 0.0}, {1.5, 2.0}, {2.5, 2.0}, {-0.5, 0.0}, {-1.5, -2.0}, {-2.5, -2.0}}) {
    EXPECT_EQ(take("round", {{x}}).value, want) << x;
    EXPECT_EQ(take("round", {{x}}).error, 0) << "a tie of an exact argument has one answer";
  }
}

TEST(Steps, AllowBothSidesOfAJumpThatTheErrorReachesAndNoMore) {
  EXPECT_EQ(take("round", {{2.4999, 2e-4}}).error, 1);
  EXPECT_EQ(take("round", {{2.4999, 5e-5}}).error, 0);
  EXPECT_EQ(take("floor", {{2.9999, 2e-4}}).error, 1);
  EXPECT_EQ(take("ceil", {{3, 1e-6}}).error, 1);
  EXPECT_EQ(take("trunc", {{-0.5, 0.4}}).error, 0);
  EXPECT_EQ(take("trunc", {{0.5, 3.6}}).error, 4);
  EXPECT_EQ(take("sign", {{1e-7, 1e-6}}).error, 2);
  const Attrs whole = attrs({{"dtype", "int8"}});
  EXPECT_EQ(take("cast", {{4.99999, 1e-4}}, whole).error, 1);
  EXPECT_EQ(take("cast", {{300, 1e-4}}, whole).value, 127);
  EXPECT_EQ(take("cast", {{-300, 1e-4}}, whole).value, -128);
  EXPECT_EQ(take("cast", {{-1.7}}, whole).value, -1) << "towards zero";
}

/// A bound that only allows for flushed denormals takes no ordinary argument across a jump.
TEST(Steps, AreNotBlurredByFlushedDenormals) {
  EXPECT_EQ(take("round", {{0.5, 0x1p-126}}).error, 0);
  EXPECT_EQ(take("gt", {{0, 0x1p-126}}, attrs({{"value", 0.0}})).error, 0);
  EXPECT_EQ(take("gt", {{0x1p-130, 0x1p-126}}, attrs({{"value", 0.0}})).error, 1);
}

TEST(Comparisons, OfExactNumbersHaveOneAnswer) {
  EXPECT_EQ(take("lt", {{1}, {1}}).value, 0);
  EXPECT_EQ(take("le", {{1}, {1}}).value, 1);
  EXPECT_EQ(take("eq", {{0.0}, {-0.0}}).value, 1);
  EXPECT_EQ(take("ne", {{1}, {1 + 0x1p-23}}).value, 1);
  for (const char* op : {"lt", "le", "gt", "ge", "eq", "ne"}) {
    EXPECT_EQ(take(op, {{1}, {1}}).error, 0) << op;
    EXPECT_EQ(take(op, {{1, 1e-6}, {1}}).error, 1) << op;
    EXPECT_EQ(take(op, {{1, 1e-6}, {1.1, 1e-6}}).error, 0) << op;
  }
}

/// 0.1 is no fp32 value: a kernel may compare with 0.1f.
TEST(Comparisons, WithAConstantAllowForItsRounding) {
  const Attrs tenth = attrs({{"value", 0.1}});
  EXPECT_EQ(take("gt", {{static_cast<double>(0.1F)}}, tenth).error, 1);
  EXPECT_EQ(take("gt", {{static_cast<double>(std::nextafter(0.1F, 1.0F))}}, tenth).error, 0);
  EXPECT_EQ(take("gt", {{0.5}}, attrs({{"value", 0.5}})).error, 0);
}

TEST(Comparisons, TakeATensorOrAConstant) {
  const SymbolicType x = fixed_type({4}), whole = fixed_type({4}, DType::kI32);
  EXPECT_FALSE(infer(*find_op("lt"), {}, {x}).ok());
  EXPECT_FALSE(infer(*find_op("lt"), attrs({{"value", 1.0}}), {x, x}).ok());
  EXPECT_FALSE(infer(*find_op("lt"), {}, {x, whole}).ok());
  EXPECT_FALSE(infer(*find_op("lt"), attrs({{"value", 0.5}}), {whole}).ok());
  EXPECT_EQ(infer(*find_op("lt"), attrs({{"value", 5}}), {whole})->dtype, DType::kBool);
}

TEST(Connectives, AreOpenWhereAnOpenOperandDecides) {
  const Given yes{1}, no{0}, open{0, 1};
  EXPECT_EQ(take("logical_and", {open, yes}).error, 1);
  EXPECT_EQ(take("logical_and", {open, no}).error, 0);
  EXPECT_EQ(take("logical_or", {open, yes}).error, 0);
  EXPECT_EQ(take("logical_or", {no, open}).error, 1);
  EXPECT_EQ(take("logical_or", {open, open}).error, 1);
  EXPECT_EQ(take("logical_not", {open}).error, 1);
  EXPECT_EQ(take("logical_not", {{-0.0}}).value, 1);
}

TEST(Rests, AreExactForWholeQuotients) {
  EXPECT_EQ(take("fmod", {{-7}, {3}}).value, -1);
  EXPECT_EQ(take("remainder", {{-7}, {3}}).value, 2);
  EXPECT_EQ(take("remainder", {{7}, {-3}}).value, -2);
  EXPECT_LT(take("remainder", {{6}, {3}}).error, 1e-6) << "no kernel may give 3";
  EXPECT_GT(take("remainder", {{6, 1e-6}, {3}}).error, 2.9);
  EXPECT_EQ(take("exponent", {{-6}}).value, 2);
  EXPECT_EQ(take("exponent", {{8}}).error, 0) << "an exact power of two has one exponent";
  EXPECT_EQ(take("exponent", {{8, 1e-6}}).error, 1);
  EXPECT_EQ(take("exponent", {{0}}).value, -126);
  EXPECT_EQ(take("exponent", {{0x1p-140}}).value, -126);
}

TEST(Atan2, JumpsAcrossTheNegativeAxisAlone) {
  EXPECT_EQ(take("atan2", {{0.0}, {-1}}).value, std::numbers::pi);
  EXPECT_EQ(take("atan2", {{-0.0}, {-1}}).value, -std::numbers::pi);
  EXPECT_EQ(take("atan2", {{-0.0}, {-1}}).error, 0);
  EXPECT_GT(take("atan2", {{1e-7, 1e-6}, {-1}}).error, 6);
  EXPECT_LT(take("atan2", {{1e-7, 1e-6}, {1}}).error, 2e-6);
}

TEST(Clamp, TakesBoundsAsTensorsOrNumbers) {
  EXPECT_EQ(take("clamp", {{5}, {-1}, {2}}).value, 2);
  EXPECT_EQ(take("clamp", {{-5}, {-1}, {2}}).value, -1);
  EXPECT_EQ(take("clamp", {{-5}, {-1}}, attrs({{"high", 2.0}})).value, -1);
  EXPECT_EQ(take("clamp", {{1, 0.5}, {2, 0.125}, {4, 0.25}}).error, 0.125) << "of what is chosen";
  const SymbolicType x = fixed_type({4});
  EXPECT_FALSE(infer(*find_op("clamp"), attrs({{"low", 0.0}}), {x, x}).ok());
}

TEST(Hardshrink, JumpsAtLambdaAlone) {
  const Attrs half = attrs({{"lambda", 0.5}});
  EXPECT_EQ(take("hardshrink", {{0.5}}).value, 0) << "and lambda is 0.5 unless given";
  EXPECT_EQ(take("hardshrink", {{0.5}}).error, 0);
  EXPECT_EQ(take("hardshrink", {{-0.75, 1e-6}}, half).error, 1e-6);
  EXPECT_GT(take("hardshrink", {{-0.5, 1e-6}}, half).error, 0.5);
  EXPECT_EQ(take("hardshrink", {{0.25, 1e-6}}, half).error, 0);
  EXPECT_EQ(take("hardshrink", {{-2}}, half).value, -2);
}

TEST(Softshrink, DrawsBothSignsToZero) {
  EXPECT_EQ(take("softshrink", {{2}}).value, 1.5) << "by 0.5 unless given";
  EXPECT_EQ(take("softshrink", {{-2}}, attrs({{"lambda", 0.25}})).value, -1.75);
  EXPECT_EQ(take("softshrink", {{-0.5}}).value, 0);
}

TEST(Prelu, HasTheErrorOfTheSideThatItIsOn) {
  EXPECT_EQ(take("prelu", {{-2}, {0.25}}).value, -0.5);
  EXPECT_EQ(take("prelu", {{2, 0.125}, {4, 1}}).error, 0.125) << "the slope plays no part";
  EXPECT_EQ(take("prelu", {{-2, 0.125}, {4, 1}}).error, 2 + 0.5 + 0.125);
  EXPECT_GT(take("prelu", {{0.0625, 0.125}, {4, 0}}).error, 0.49);
}

TEST(TellingInputs, AreTiesThresholdsAndTheirNeighbours) {
  const auto has = [](const std::vector<double>& values, double wanted) {
    return std::ranges::count(values, wanted) > 0;
  };
  const auto halves = telling_inputs(*find_op("round"), {}, 0, DType::kF32);
  EXPECT_TRUE(has(halves, 2.5) && has(halves, -0.5) && has(halves, 0.5 - 0x1p-25));
  const auto near = telling_inputs(*find_op("gt"), attrs({{"value", 0.75}}), 0, DType::kF16);
  EXPECT_TRUE(has(near, 0.75) && has(near, 0.75 + 0x1p-11));
  const auto ends = telling_inputs(*find_op("acos"), {}, 0, DType::kF32);
  EXPECT_TRUE(has(ends, 1) && has(ends, -1) && has(ends, 1 - 0x1p-24) && !has(ends, 1 + 0x1p-23));
  EXPECT_TRUE(has(telling_inputs(*find_op("hardshrink"), attrs({{"lambda", 0.75}}), 0, DType::kF32), -0.75));
  EXPECT_TRUE(telling_inputs(*find_op("relu"), {}, 0, DType::kF32).empty());
}

TEST(Jumps, AnOpenElementLeavesAMaskOpenUnlessAnotherSettlesIt) {
  OpCase row;
  row.in = {{3}};
  row.draws = {Draw{.binary = true}};
  const auto reduced = [&](const char* op, std::vector<double> held, std::vector<double> open) {
    row.op = op;
    const Value out = evaluate(row, {{{3}, std::move(held), std::move(open)}}, Numerics{.unit_roundoff = 0});
    return std::pair(out.data[0], out.error_at(0));
  };
  EXPECT_EQ(reduced("any", {0, 1, 1}, {0, 1, 0}), std::pair(1.0, 0.0));
  EXPECT_EQ(reduced("any", {0, 1, 0}, {0, 1, 0}), std::pair(1.0, 1.0));
  EXPECT_EQ(reduced("any", {0, 0, 0}, {0, 0, 1}), std::pair(0.0, 1.0));
  EXPECT_EQ(reduced("all", {0, 1, 1}, {0, 1, 0}), std::pair(0.0, 0.0));
  EXPECT_EQ(reduced("all", {1, 1, 1}, {0, 1, 0}), std::pair(1.0, 1.0));
  EXPECT_EQ(reduced("all", {1, 0, 1}, {0, 1, 0}), std::pair(0.0, 1.0));
}

}  // namespace
}  // namespace lathe
