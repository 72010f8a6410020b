#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

using testing::HasSubstr;

/// infer() with symbolic extents: "M" and "N" are dims, numbers are numbers. Equal means equal at
/// two points.
Result<SymbolicType> infer_symbolic(std::string_view op, const Attrs& given,
                                    const std::vector<std::vector<std::string>>& shapes,
                                    DType dtype = DType::kF32) {
  InferContext context{given, {}, [](const Expr& a, const Expr& b) {
                         for (const Dims& dims : {Dims{{"M", 24}, {"N", 36}}, Dims{{"M", 48}, {"N", 132}}}) {
                           const auto left = a.evaluate(dims);
                           const auto right = b.evaluate(dims);
                           if (!left.ok() || !right.ok() || *left != *right) return false;
                         }
                         return true;
                       }};
  for (const auto& shape : shapes) {
    SymbolicType type{dtype, {}};
    for (const std::string& extent : shape) type.shape.push_back(*Expr::parse(extent));
    context.in.push_back(type);
  }
  return find_op(op)->infer(context);
}

std::string inferred(std::string_view op, const Attrs& given,
                     const std::vector<std::vector<std::string>>& shapes, DType dtype = DType::kF32) {
  const Result<SymbolicType> type = infer_symbolic(op, given, shapes, dtype);
  if (!type.ok()) return type.error().message;
  std::string text;
  for (const Expr& extent : type->shape) text += (text.empty() ? "" : ", ") + extent.to_string();
  return text;
}

TEST(ShapeRules, SizesMayBeExpressions) {
  const auto sized = [](std::vector<std::string> size) { return attrs({{"size", std::move(size)}}); };
  EXPECT_EQ(inferred("upsample_bilinear2d", sized({"2 * M", "N / 2"}), {{"1", "3", "M", "N"}}),
            "1, 3, 2 * M, N / 2");
  EXPECT_EQ(inferred("adaptive_avg_pool3d", attrs({{"size", 2}}), {{"1", "3", "M", "N", "N"}}),
            "1, 3, 2, 2, 2");
  EXPECT_THAT(inferred("upsample_nearest2d", sized({"M", "N", "N"}), {{"1", "3", "M", "N"}}),
              HasSubstr("has 3 extents"));
  EXPECT_THAT(inferred("adaptive_max_pool1d", sized({"M"}), {{"3", "M"}}), HasSubstr("rank 3"));
}

TEST(ShapeRules, StaySymbolic) {
  EXPECT_EQ(inferred("add", {}, {{"M", "1"}, {"N"}}), "M, N");
  EXPECT_EQ(inferred("matmul", {}, {{"M", "N"}, {"N", "64"}}), "M, 64");
  EXPECT_EQ(inferred("matmul", attrs({{"transpose_a", true}}), {{"8", "N", "M"}, {"N", "4"}}), "8, M, 4");
  EXPECT_EQ(inferred("linear", {}, {{"M", "N"}, {"5", "N"}, {"5"}}), "M, 5");
  EXPECT_EQ(inferred("sum", attrs({{"axis", -1}, {"keepdims", true}}), {{"M", "N"}}), "M, 1");
  EXPECT_EQ(inferred("sum", {}, {{"M", "N"}}), "");
  EXPECT_EQ(inferred("diag", {}, {{"N"}}), "N, N");
  EXPECT_EQ(inferred("gather", {}, {{"M", "N"}, {"4"}}, DType::kI32), "4, N");
  EXPECT_EQ(inferred("scatter_add", {}, {{"M", "N"}, {"4"}, {"4", "N"}}, DType::kI32), "M, N");
  EXPECT_EQ(inferred("bincount", attrs({{"bins", "N / 2"}}), {{"M", "4"}}, DType::kI64), "N / 2");
  EXPECT_EQ(inferred("argsort", attrs({{"axis", 0}}), {{"M", "N"}}), "M, N");
  EXPECT_EQ(infer_symbolic("argsort", {}, {{"M"}})->dtype, DType::kI64);
  EXPECT_EQ(inferred("take_along", {}, {{"M", "N"}, {"M", "4"}}, DType::kI32), "M, 4");
  EXPECT_EQ(inferred("take_along", attrs({{"axis", 0}}), {{"M", "N"}, {"4", "N"}}, DType::kI64), "4, N");
}

TEST(ShapeRules, OfOpsWithoutInputs) {
  const auto square = [](std::vector<AttrPair> more) {
    more.emplace_back("shape", std::vector<std::string>{"M", "2 * N"});
    return attrs(std::move(more));
  };
  EXPECT_EQ(inferred("iota", square({}), {}), "M, 2 * N");
  EXPECT_EQ(infer_symbolic("iota", square({}), {})->dtype, DType::kF32);
  EXPECT_EQ(infer_symbolic("iota", square({{"dtype", "int64"}, {"axis", 0}}), {})->dtype, DType::kI64);
  EXPECT_EQ(inferred("full", square({{"value", -2}, {"dtype", "int8"}}), {}), "M, 2 * N");
  EXPECT_THAT(inferred("iota", square({{"axis", 2}}), {}), HasSubstr("axis 2 is outside"));
  EXPECT_THAT(inferred("iota", square({{"dtype", "int8"}}), {}),
              HasSubstr("int8 does not hold all positions"));
  EXPECT_EQ(inferred("iota", square({{"dtype", "int8"}, {"axis", 0}}), {}), "M, 2 * N");
  EXPECT_THAT(inferred("iota", attrs({{"shape", std::vector<std::int64_t>{}}}), {}), HasSubstr("no extent"));
  EXPECT_THAT(inferred("full", square({{"value", 0.5}, {"dtype", "int32"}}), {}),
              HasSubstr("no number of int32"));
  EXPECT_THAT(inferred("full", square({{"value", 1e6}, {"dtype", "fp16"}}), {}),
              HasSubstr("no number of fp16"));
  EXPECT_THAT(inferred("full", square({{"value", NAN}}), {}), HasSubstr("no number"));
}

TEST(ShapeRules, ConstantsMayBeMadeOfExtents) {
  const auto full = [](const char* value, const char* dtype) {
    return inferred("full",
                    attrs({{"shape", std::vector<std::int64_t>{1}}, {"value", value}, {"dtype", dtype}}), {});
  };
  EXPECT_EQ(full("M * N - 1", "int32"), "1");
  EXPECT_EQ(full("-N", "fp32"), "1");
  EXPECT_THAT(full("N * 1000", "int8"), HasSubstr("int8 does not hold all values of N * 1000"));
  EXPECT_THAT(full("0 - N * 1000", "int8"), HasSubstr("int8 does not hold"));
}

TEST(ShapeRules, APadTakesFromTheInputWhatIsThere) {
  const auto padded = [](const char* mode, const char* before) {
    return inferred("pad", attrs({{"mode", mode}, {"before", before}}), {{"4"}});
  };
  EXPECT_EQ(padded("reflect", "3"), "7");
  EXPECT_THAT(padded("reflect", "4"), HasSubstr("takes no 4 elements from an axis of 4"));
  EXPECT_EQ(padded("circular", "4"), "8");
  EXPECT_THAT(padded("circular", "5"), HasSubstr("takes no 5 elements"));
  EXPECT_EQ(padded("replicate", "9"), "13");
  EXPECT_THAT(inferred("pad", attrs({{"mode", "reflect"}, {"after", 1}, {"value", 1.0}}), {{"4"}}),
              HasSubstr("has no value"));
}

TEST(ShapeRules, AttributesMayBeExpressions) {
  EXPECT_EQ(inferred("slice", attrs({{"start", "N / 2"}}), {{"M", "N"}}), "M, N - N / 2");
  EXPECT_EQ(inferred("pad", attrs({{"before", "M"}}), {{"M"}}), "M + M");
  EXPECT_EQ(inferred("tile", attrs({{"times", "N / 4"}, {"axis", 0}}), {{"M", "N"}}), "N / 4 * M, N");
  EXPECT_EQ(inferred("roll", attrs({{"shift", "M - 3 * N"}}), {{"M", "N"}}), "M, N");
  const Attrs shape = attrs({{"shape", std::vector<std::string>{"M", "2", "-1"}}});
  EXPECT_EQ(inferred("reshape", shape, {{"M", "N"}}), "M, 2, M * N / (M * 2)");
}

TEST(ShapeRules, WindowsFollowTheTextbook) {
  const Attrs strided = attrs({{"stride", 2}, {"padding", 1}});
  EXPECT_EQ(
      shape_of(*infer(*find_op("conv2d"), strided, {fixed_type({1, 3, 7, 8}), fixed_type({4, 3, 3, 3})})),
      (Shape{1, 4, 4, 4}));
  EXPECT_EQ(shape_of(*infer(*find_op("max_pool2d"), attrs({{"kernel", 2}}), {fixed_type({1, 3, 7, 8})})),
            (Shape{1, 3, 3, 4}));
  const auto rounded_up = [](int kernel, int stride, int padding) {
    const Attrs given =
        attrs({{"kernel", kernel}, {"stride", stride}, {"padding", padding}, {"ceil_mode", true}});
    return shape_of(*infer(*find_op("max_pool1d"), given, {fixed_type({1, 3, 7})}))[2];
  };
  EXPECT_EQ(rounded_up(2, 2, 0), 4);
  EXPECT_EQ(rounded_up(3, 2, 0), 3) << "nothing is left over";
  EXPECT_EQ(rounded_up(2, 3, 1), 3) << "a window that starts in the padding behind is none";
  EXPECT_EQ(rounded_up(1, 2, 0), 4);
  const Attrs dilated = attrs({{"kernel", 2}, {"stride", 1}, {"padding", 2}, {"dilation", 3}});
  EXPECT_EQ(shape_of(*infer(*find_op("max_pool2d"), dilated, {fixed_type({1, 3, 7, 8})})),
            (Shape{1, 3, 8, 9}));
  const auto too_small =
      infer(*find_op("conv1d"), attrs({{"stride", 2}}), {fixed_type({1, 1, 2}), fixed_type({1, 1, 3})});
  EXPECT_LE(shape_of(*too_small)[2], 0) << "a window that does not fit has no position";
}

TEST(ShapeRules, SayWhatIsWrong) {
  EXPECT_THAT(inferred("add", {}, {{"M"}, {"N"}}), HasSubstr("[M] and [N] do not broadcast"));
  EXPECT_THAT(inferred("matmul", {}, {{"M", "N"}, {"M", "N"}}), HasSubstr("N against M"));
  EXPECT_THAT(inferred("matmul", {}, {{"M", "N"}, {"N"}}), HasSubstr("rank 2 or more"));
  EXPECT_THAT(inferred("linear", {}, {{"M", "N"}, {"4", "M"}}), HasSubstr("the weight is [4, M]"));
  EXPECT_THAT(inferred("bias_add", {}, {{"M", "N"}, {"M"}}), HasSubstr("must have [N]"));
  EXPECT_THAT(inferred("softmax", attrs({{"axis", 2}}), {{"M", "N"}}), HasSubstr("axis 2 is outside"));
  EXPECT_THAT(inferred("softmax", {}, {{}}), HasSubstr("scalar"));
  EXPECT_THAT(inferred("softmax", attrs({{"axis", "M"}}), {{"M", "N"}}), HasSubstr("must be a number"));
  EXPECT_THAT(inferred("relu", {}, {{"M"}}, DType::kI32), HasSubstr("floating-point"));
  EXPECT_THAT(inferred("transpose", attrs({{"perm", std::vector<std::int64_t>{0, 0}}}), {{"M", "N"}}),
              HasSubstr("twice"));
  EXPECT_THAT(inferred("sum", attrs({{"axes", std::vector<std::int64_t>{1, -1}}}), {{"M", "N"}}),
              HasSubstr("twice"));
  EXPECT_THAT(inferred("sum", attrs({{"axis", 0}, {"axes", std::vector<std::int64_t>{1}}}), {{"M", "N"}}),
              HasSubstr("both"));
  EXPECT_THAT(inferred("reshape", attrs({{"shape", std::vector<std::int64_t>{7, -1}}}), {{"M", "4"}}),
              HasSubstr("does not have the elements"));
  EXPECT_THAT(inferred("repeat_interleave", attrs({{"times", "M - N"}}), {{"M", "N"}}),
              HasSubstr("1 or more"));
  EXPECT_THAT(inferred("slice", attrs({{"start", 3}, {"stop", 3}}), {{"8"}}), HasSubstr("does not lie"));
  EXPECT_THAT(inferred("concat", attrs({{"axis", 0}}), {{"M", "N"}, {"M", "M"}}), HasSubstr("beside axis 0"));
  EXPECT_THAT(inferred("group_norm", attrs({{"groups", 5}}), {{"M", "8", "N"}}), HasSubstr("do not divide"));
  EXPECT_THAT(inferred("group_norm", attrs({{"groups", -2}}), {{"M", "8", "N"}}), HasSubstr("do not divide"));
  EXPECT_THAT(inferred("group_norm", attrs({{"groups", 0}}), {{"M", "8", "N"}}), HasSubstr("do not divide"));
  EXPECT_THAT(inferred("conv2d", {}, {{"1", "3", "9", "9"}, {"4", "2", "3", "3"}}),
              HasSubstr("input channels"));
  EXPECT_THAT(inferred("conv2d", attrs({{"stride", 0}}), {{"1", "3", "9", "9"}, {"4", "3", "3", "3"}}),
              HasSubstr("'stride' must be 1 or more"));
  EXPECT_THAT(inferred("max_pool2d", attrs({{"kernel", 2}, {"padding", 2}}), {{"1", "3", "9", "9"}}),
              HasSubstr("half of what a window spans"));
  EXPECT_THAT(inferred("gather", {}, {{"M", "N"}, {"4"}}), HasSubstr("int32 or int64"));
  EXPECT_THAT(inferred("scatter_add", {}, {{"M", "N"}, {"4"}, {"4", "N"}}), HasSubstr("int32 or int64"));
  EXPECT_THAT(inferred("scatter_add", {}, {{"M", "N"}, {"4"}, {"M", "N"}}, DType::kI32),
              HasSubstr("must have [4, N], a slice of input 1 for each element of input 2"));
  EXPECT_THAT(inferred("scatter_add", {}, {{"M"}, {}, {}}, DType::kI32), HasSubstr("must have an axis"));
  EXPECT_THAT(inferred("bincount", attrs({{"bins", 4}}), {{"M"}}), HasSubstr("int32 or int64"));
  EXPECT_THAT(inferred("bincount", attrs({{"bins", 0}}), {{"M"}}, DType::kI32),
              HasSubstr("must be 1 or more"));
  EXPECT_THAT(inferred("argsort", attrs({{"axis", 2}}), {{"M", "N"}}), HasSubstr("axis 2 is outside"));
  EXPECT_THAT(inferred("argsort", {}, {{"M"}}, DType::kBool), HasSubstr("bool"));
  EXPECT_THAT(inferred("take_along", {}, {{"M", "N"}, {"M", "N"}}), HasSubstr("int32 or int64"));
  EXPECT_THAT(inferred("take_along", {}, {{"M", "N"}, {"N", "4"}}, DType::kI32),
              HasSubstr("must have [M, 4], the shape of input 1 beside the axis"));
  EXPECT_THAT(inferred("take_along", {}, {{"M", "N"}, {"4"}}, DType::kI32), HasSubstr("must have [M, N]"));
  EXPECT_THAT(inferred("attention", {}, {{"2", "M", "8"}, {"3", "N", "8"}, {"2", "N", "8"}}),
              HasSubstr("heads"));
  EXPECT_EQ(inferred("attention", {}, {{"4", "6", "M", "8"}, {"4", "2", "N", "8"}, {"4", "2", "N", "5"}}),
            "4, 6, M, 5");
  EXPECT_THAT(inferred("attention", {}, {{"4", "2", "M", "8"}, {"4", "6", "N", "8"}, {"4", "6", "N", "8"}}),
              HasSubstr("heads"));
  EXPECT_THAT(inferred("mse_loss", {}, {{"M"}, {"N"}}), HasSubstr("must have [M]"));
  EXPECT_THAT(inferred("huber_loss", attrs({{"delta", 0.0}}), {{"M"}, {"M"}}), HasSubstr("positive"));
}

/// Whatever inputs a task names, a shape rule answers and does not crash.
TEST(ShapeRules, SurviveEveryRank) {
  for (const Op* op : all_ops()) {
    Attrs required;
    for (const AttrRule& rule : op->attr_rules()) {
      if (!rule.required) continue;
      if (rule.kind == AttrKind::kReal || rule.kind == AttrKind::kInteger)
        required.set(std::string(rule.name), 2L);
      if (rule.kind == AttrKind::kIntegers)
        required.set(std::string(rule.name), std::vector<std::int64_t>{2, -1});
      if (rule.kind == AttrKind::kText) required.set(std::string(rule.name), std::string(rule.choices[0]));
    }
    for (int inputs = op->min_inputs(); inputs <= op->max_inputs(); ++inputs) {
      for (std::size_t rank = 0; rank <= 6; ++rank) {
        for (const DType dtype : {DType::kF32, DType::kI64, DType::kBool}) {
          const std::vector<SymbolicType> in(static_cast<std::size_t>(inputs),
                                             fixed_type(Shape(rank, 4), dtype));
          const Result<SymbolicType> type = infer(*op, required, in);
          EXPECT_TRUE(type.ok() || !type.error().message.empty()) << op->name();
        }
      }
    }
  }
}

TEST(ShapeRules, DtypesFollowTheInputs) {
  EXPECT_EQ(infer_symbolic("matmul", {}, {{"4", "4"}, {"4", "4"}}, DType::kI8)->dtype, DType::kI32);
  EXPECT_EQ(
      infer_symbolic("matmul", attrs({{"out_dtype", "fp32"}}), {{"4", "4"}, {"4", "4"}}, DType::kF16)->dtype,
      DType::kF32);
  EXPECT_EQ(infer_symbolic("argmax", {}, {{"4", "4"}})->dtype, DType::kI64);
  EXPECT_EQ(infer_symbolic("cast", attrs({{"dtype", "bf16"}}), {{"4"}})->dtype, DType::kBF16);
  const auto mixed = infer(*find_op("add"), {}, {fixed_type({4}), fixed_type({4}, DType::kF16)});
  ASSERT_FALSE(mixed.ok());
  EXPECT_THAT(mixed.error().message, HasSubstr("fp32 [4] and fp16 [4]"));
}

}  // namespace
}  // namespace lathe
