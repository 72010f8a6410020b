#include <gmock/gmock.h>

#include <limits>

#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

using testing::HasSubstr;

/// What the op gives for one number, or two, of the dtype.
Value take(std::string_view op, DType dtype, std::vector<Value> in, const Attrs& given = {},
           bool textbook = false) {
  const Attrs attributes = given;
  const std::vector<Shape> shapes(in.size(), Shape{1});
  const OpSite site{attributes, shapes, {1}, nullptr, dtype};
  Value out;
  find_op(op)->evaluate(site, pointers(in), Numerics{.textbook = textbook}, out);
  return out;
}
Value exact(double x) { return {{1}, {x}, {}}; }
double result(std::string_view op, DType dtype, double x, const Attrs& given) {
  return take(op, dtype, {exact(x)}, given).data[0];
}
double result(std::string_view op, DType dtype, double x, double y) {
  return take(op, dtype, {exact(x), exact(y)}).data[0];
}

TEST(Shifts, LoseWhatLeavesTheDtype) {
  const Attrs four = attrs({{"by", 4}});
  EXPECT_EQ(result("shift_left", DType::kI8, 0x17, four), 0x70);
  EXPECT_EQ(result("shift_left", DType::kI8, 0x19, four), -0x70);
  EXPECT_EQ(result("shift_left", DType::kI32, 0x19, four), 0x190);
  EXPECT_EQ(result("shift_left", DType::kI32, 0x1p30, attrs({{"by", 1}})), -0x1p31);
  EXPECT_EQ(result("shift_left", DType::kI64, 3, attrs({{"by", 62}})), -0x1p62);
}

TEST(Shifts, ToTheRightKeepTheSign) {
  EXPECT_EQ(result("shift_right", DType::kI8, -1, attrs({{"by", 7}})), -1);
  EXPECT_EQ(result("shift_right", DType::kI8, -100, attrs({{"by", 4}})), -7) << "and round down";
  EXPECT_EQ(take("shift_right", DType::kI8, {exact(-100)}, attrs({{"by", 4}}), true).data[0], 9)
      << "zeros from above are the mistake";
}

TEST(Shifts, ByNoNumberOfBitsLeaveZeroOrTheSign) {
  for (const DType dtype : {DType::kI8, DType::kI32, DType::kI64}) {
    for (const double by : {-1.0, 64.0, 100.0}) {
      EXPECT_EQ(result("shift_left", dtype, -77, by), 0) << info(dtype).name << ' ' << by;
      EXPECT_EQ(result("shift_right", dtype, -77, by), -1) << info(dtype).name << ' ' << by;
      EXPECT_EQ(result("shift_right", dtype, 77, by), 0) << info(dtype).name << ' ' << by;
    }
  }
}

TEST(Bitwise, IsExactOnAllWholeNumbersThatTheReferenceHolds) {
  const double odd = 0x1p52 + 1;
  EXPECT_EQ(result("bitwise_and", DType::kI64, odd, -odd), 1);
  EXPECT_EQ(result("bitwise_or", DType::kI64, odd, -odd), -1);
  EXPECT_EQ(result("bitwise_xor", DType::kI64, odd, -1.0), -odd - 1);
  EXPECT_EQ(take("bitwise_not", DType::kI64, {exact(odd)}).data[0], -odd - 1);
  EXPECT_EQ(result("bitwise_xor", DType::kI8, 0x55, attrs({{"value", -128}})), -43);
  EXPECT_EQ(result("bitwise_and", DType::kI32, -1, attrs({{"value", 255}})), 255);
}

TEST(Bitwise, CountsTheOnesOfTheDtype) {
  const auto ones = [](DType dtype, double x) { return take("popcount", dtype, {exact(x)}).data[0]; };
  EXPECT_EQ(ones(DType::kI32, 0), 0);
  EXPECT_EQ(ones(DType::kI32, 0x55), 4);
  EXPECT_EQ(ones(DType::kI32, -1), 32);
  EXPECT_EQ(ones(DType::kI64, -1), 64);
  EXPECT_EQ(ones(DType::kI32, -0x1p31), 1);
}

TEST(WrappingArithmetic, KeepsTheLowBits) {
  EXPECT_EQ(result("wrapping_add", DType::kI32, 0x7fffffff, attrs({{"value", 1}})), -0x1p31);
  EXPECT_EQ(result("wrapping_mul", DType::kI32, 0x10001, 0x10001), 0x20001);
  EXPECT_EQ(result("wrapping_mul", DType::kI32, -1, attrs({{"value", -2048144789}})), 2048144789);
  EXPECT_EQ(result("wrapping_mul", DType::kI32, -0x1p31, -0x1p31), 0);
}

TEST(WrappingArithmetic, HighHalvesAreOfUnsignedNumbers) {
  EXPECT_EQ(result("mul_high", DType::kI32, 0x10000, 0x30000), 3);
  EXPECT_EQ(result("mul_high", DType::kI32, -1, -1.0), -2) << "0xffffffff squared is 0xfffffffe00000001";
  EXPECT_EQ(take("mul_high", DType::kI32, {exact(-1), exact(-1)}, {}, true).data[0], 0) << "as signed ones";
}

TEST(Bitwise, OfAnOpenJumpAllowsWhatComesOfItsSides) {
  const Value open{{1}, {8}, {1}};
  EXPECT_EQ(take("bitwise_and", DType::kI8, {open}, attrs({{"value", 8}})).err[0], 8) << "7, 8 and 9";
  EXPECT_EQ(take("shift_right", DType::kI8, {open}, attrs({{"by", 3}})).err[0], 1);
  EXPECT_EQ(take("shift_right", DType::kI8, {open}, attrs({{"by", 4}})).err[0], 0);
  const Value unknown{{1}, {8}, {std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(take("bitwise_not", DType::kI32, {unknown}).err[0], 0x1p32 - 1);
}

TEST(Bitwise, TakesWholeNumbersAndOneSecondOperand) {
  const SymbolicType x = fixed_type({4}, DType::kI8), mask = fixed_type({4}, DType::kBool);
  const auto error = [](const char* op, const Attrs& given, const std::vector<SymbolicType>& in) {
    const auto type = infer(*find_op(op), given, in);
    return type.ok() ? "none" : type.error().to_string();
  };
  EXPECT_THAT(error("bitwise_and", {}, {fixed_type({4}), fixed_type({4})}), HasSubstr("'cast'"));
  EXPECT_THAT(error("bitwise_and", {}, {mask, mask}), HasSubstr("logical_and"));
  EXPECT_THAT(error("bitwise_and", {}, {x}), HasSubstr("give one"));
  EXPECT_THAT(error("bitwise_and", attrs({{"value", 1}}), {x, x}), HasSubstr("drop one"));
  EXPECT_THAT(error("bitwise_and", {}, {x, fixed_type({4}, DType::kI32)}), HasSubstr("different dtypes"));
  EXPECT_THAT(error("bitwise_and", attrs({{"value", 128}}), {x}), HasSubstr("from -128 to 127"));
  EXPECT_THAT(error("shift_left", attrs({{"by", 8}}), {x}), HasSubstr("from 0 to 7"));
  EXPECT_THAT(error("shift_right", attrs({{"by", -1}}), {x}), HasSubstr("from 0 to 7"));
  EXPECT_EQ(error("shift_right", attrs({{"by", 31}}), {fixed_type({4}, DType::kI32)}), "none");
  EXPECT_THAT(error("popcount", {}, {x}), HasSubstr("takes int32 or int64"));
  EXPECT_THAT(error("wrapping_mul", attrs({{"value", 3}}), {fixed_type({4}, DType::kI64)}),
              HasSubstr("takes int32"));
}

}  // namespace
}  // namespace lathe
