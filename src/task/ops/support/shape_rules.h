#pragma once

#include <string>
#include <vector>

#include "task/op.h"

/// Checks shared by shape rules. Extents are compared by InferContext::same; messages number
/// operands from 1.
namespace lathe::ops {

std::string describe(const SymbolicType& type);  ///< "fp32 [M, K / 2]"
std::string describe(const std::vector<Expr>& shape);

/// Every input has in[0]'s dtype, which is a floating-point one.
Status check_float(const InferContext& context);
/// Every input has in[0]'s dtype, which is not bool.
Status check_numeric(const InferContext& context);
/// in[0] is a whole number; `otherwise` is what to write for one that is not.
Status check_whole(const InferContext& context, std::string_view otherwise);

/// Attributes that must be numbers, not expressions over dims.
Result<std::int64_t> fixed_integer(const Attrs& attrs, std::string_view name, std::int64_t fallback);
Result<std::vector<std::int64_t>> fixed_integers(const Attrs& attrs, std::string_view name,
                                                 std::vector<std::int64_t> fallback);

/// Converts an axis in [-rank, rank) to [0, rank).
Result<std::size_t> check_axis(std::int64_t axis, std::size_t rank);
Result<std::size_t> axis_attr(const Attrs& attrs, std::int64_t fallback, std::size_t rank);
std::size_t wrap_axis(std::int64_t axis, std::size_t rank);

/// Input `input` is int32 or int64.
Status check_index(const InferContext& context, std::size_t input);

Status check_rank(const InferContext& context, std::size_t input, std::size_t rank);
/// Input `input` has exactly this shape; `meaning` says what it must equal ("the normalised axes of
/// input 1").
Status check_shape(const InferContext& context, std::size_t input, const std::vector<Expr>& shape,
                   const std::string& meaning);

bool is_one(const Expr& extent);
/// numpy's broadcasting rule; only an extent that is the constant 1 is broadcast.
Result<std::vector<Expr>> broadcast(const InferContext& context, const std::vector<Expr>& a,
                                    const std::vector<Expr>& b);
Expr product(const std::vector<Expr>& extents);

}  // namespace lathe::ops
