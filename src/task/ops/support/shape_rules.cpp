#include "task/ops/support/shape_rules.h"

#include <algorithm>

namespace lathe::ops {
namespace {

Status check_same_dtype(const InferContext& context) {
  for (std::size_t i = 1; i < context.in.size(); ++i) {
    if (context.in[i].dtype == context.in[0].dtype) continue;
    return invalid("inputs 1 and " + std::to_string(i + 1) + " have different dtypes: " +
                       describe(context.in[0]) + " and " + describe(context.in[i]),
                   "convert one of them with the op 'cast'");
  }
  return Ok{};
}

}  // namespace

std::string describe(const std::vector<Expr>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + shape[i].to_string();
  return text + "]";
}

std::string describe(const SymbolicType& type) {
  return std::string(info(type.dtype).name) + " " + describe(type.shape);
}

Status check_float(const InferContext& context) {
  LATHE_CHECK_OK(check_same_dtype(context));
  if (info(context.in[0].dtype).is_float) return Ok{};
  const std::string dtype(info(context.in[0].dtype).name);
  return invalid("needs floating-point inputs, got " + describe(context.in[0]),
                 "convert it with the op 'cast'" +
                     (context.in[0].dtype == DType::kBool
                          ? std::string()
                          : "; whole numbers have add, sub, mul, max, min, floor_divide and remainder, of "
                            "full(shape = [1], value = ..., dtype = \"" +
                                dtype + "\") for a number"));
}

Status check_numeric(const InferContext& context) {
  LATHE_CHECK_OK(check_same_dtype(context));
  if (context.in[0].dtype != DType::kBool) return Ok{};
  return invalid("needs numbers, got " + describe(context.in[0]), "convert it with the op 'cast'");
}

Status check_whole(const InferContext& context, std::string_view otherwise) {
  if (!info(context.in[0].dtype).is_float) return Ok{};
  return invalid("needs whole numbers, got " + describe(context.in[0]), std::string(otherwise));
}

Result<std::vector<std::int64_t>> fixed_integers(const Attrs& attrs, std::string_view name,
                                                 std::vector<std::int64_t> fallback) {
  if (!attrs.has(name)) return fallback;
  LATHE_TRY(const std::vector<Expr> exprs, attrs.expressions(name, {}));
  std::vector<std::int64_t> numbers;
  for (const Expr& expr : exprs) {
    const Result<std::int64_t> value = expr.evaluate({});
    if (!value.ok()) {
      return invalid("attribute '" + std::string(name) + "' must be a number here, got '" + expr.to_string() +
                     "'");
    }
    numbers.push_back(*value);
  }
  return numbers;
}

Result<std::int64_t> fixed_integer(const Attrs& attrs, std::string_view name, std::int64_t fallback) {
  LATHE_TRY(const std::vector<std::int64_t> numbers, fixed_integers(attrs, name, {fallback}));
  assert(numbers.size() == 1);
  return numbers[0];
}

Result<std::size_t> axis_attr(const Attrs& attrs, std::int64_t fallback, std::size_t rank) {
  LATHE_TRY(const std::int64_t axis, fixed_integer(attrs, "axis", fallback));
  return check_axis(axis, rank);
}

Result<std::size_t> check_axis(std::int64_t axis, std::size_t rank) {
  const auto extent = static_cast<std::int64_t>(rank);
  if (axis >= -extent && axis < extent) return wrap_axis(axis, rank);
  if (rank == 0) return invalid("axis " + std::to_string(axis) + " of a scalar");
  return invalid("axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank),
                 "use an axis from " + std::to_string(-extent) + " to " + std::to_string(extent - 1));
}

std::size_t wrap_axis(std::int64_t axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

Status check_rank(const InferContext& context, std::size_t input, std::size_t rank) {
  if (context.in[input].shape.size() == rank) return Ok{};
  return invalid("input " + std::to_string(input + 1) + " must have rank " + std::to_string(rank) + ", got " +
                 describe(context.in[input]));
}

Status check_index(const InferContext& context, std::size_t input) {
  const SymbolicType& index = context.in[input];
  if (index.dtype == DType::kI32 || index.dtype == DType::kI64) return Ok{};
  return invalid("input " + std::to_string(input + 1) + " must be int32 or int64, got " + describe(index));
}

Status check_shape(const InferContext& context, std::size_t input, const std::vector<Expr>& shape,
                   const std::string& meaning) {
  const std::vector<Expr>& actual = context.in[input].shape;
  if (std::ranges::equal(actual, shape, context.same)) return Ok{};
  return invalid("input " + std::to_string(input + 1) + " has shape " + describe(actual) + " but must have " +
                 describe(shape) + ", " + meaning);
}

bool is_one(const Expr& extent) {
  if (!extent.is_constant()) return false;
  const Result<std::int64_t> value = extent.evaluate({});
  return value.ok() && *value == 1;
}

Result<std::vector<Expr>> broadcast(const InferContext& context, const std::vector<Expr>& a,
                                    const std::vector<Expr>& b) {
  const std::vector<Expr>& longer = a.size() >= b.size() ? a : b;
  const std::vector<Expr>& shorter = a.size() >= b.size() ? b : a;
  const std::size_t lead = longer.size() - shorter.size();
  std::vector<Expr> result = longer;
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    Expr& extent = result[lead + i];
    if (context.same(extent, shorter[i]) || is_one(shorter[i])) continue;
    if (!is_one(extent)) {
      return invalid("shapes " + describe(a) + " and " + describe(b) +
                         " do not broadcast: " + extent.to_string() + " against " + shorter[i].to_string(),
                     "shapes align at their last axis; extents must be equal, or one of them 1");
    }
    extent = shorter[i];
  }
  return result;
}

Expr product(const std::vector<Expr>& extents) {
  Expr result = Expr::constant(1);
  for (const Expr& extent : extents) result = result * extent;
  return result;
}

}  // namespace lathe::ops
