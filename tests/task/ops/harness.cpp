#include "tests/task/ops/harness.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lathe {

Attrs attrs(std::vector<AttrPair> pairs) {
  Attrs result;
  for (AttrPair& pair : pairs) result.set(std::move(pair.name), std::move(pair.value));
  return result;
}

SymbolicType fixed_type(const Shape& shape, DType dtype) {
  SymbolicType type{dtype, {}};
  for (const std::int64_t extent : shape) type.shape.push_back(Expr::constant(extent));
  return type;
}

Shape shape_of(const SymbolicType& type) {
  Shape shape;
  for (const Expr& extent : type.shape) {
    const Result<std::int64_t> value = extent.evaluate({});
    EXPECT_TRUE(value.ok()) << extent.to_string();
    shape.push_back(value.ok() ? *value : 0);
  }
  return shape;
}

Result<SymbolicType> infer(const Op& op, const Attrs& given, const std::vector<SymbolicType>& in) {
  const auto same = [](const Expr& a, const Expr& b) {
    const auto left = a.evaluate({});
    const auto right = b.evaluate({});
    return left.ok() && right.ok() && *left == *right;
  };
  return op.infer({given, in, same});
}

namespace {

const Draw& draw_of(const OpCase& op_case, std::size_t input) {
  static const Draw kUniform;
  if (op_case.draws.empty()) return kUniform;
  return op_case.draws[std::min(input, op_case.draws.size() - 1)];
}

DType dtype_of(const Draw& draw) {
  if (draw.binary) return DType::kBool;
  if (draw.whole) return *draw.whole;
  return draw.index_limit > 0 ? DType::kI64 : DType::kF32;
}

}  // namespace

std::vector<Value> draw_inputs(const OpCase& op_case, Rng& rng) {
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < op_case.in.size(); ++i) {
    const Draw& draw = draw_of(op_case, i);
    Value value{op_case.in[i], {}, {}};
    for (std::int64_t k = 0; k < element_count(value.shape); ++k) {
      double number = draw.low + (draw.high - draw.low) * rng.uniform();
      if (draw.index_limit > 0) number = static_cast<double>(rng.between(0, draw.index_limit - 1));
      if (draw.whole)
        number = static_cast<double>(
            rng.between(static_cast<std::int64_t>(draw.low), static_cast<std::int64_t>(draw.high)));
      if (draw.binary) number = rng.chance(0.5) ? 1 : 0;
      value.data.push_back(static_cast<double>(static_cast<float>(number)));
    }
    if (draw.order == Order::kDistinct) {
      std::vector<double> places(static_cast<std::size_t>(draw.index_limit));
      std::iota(places.begin(), places.end(), 0);
      rng.shuffle(places);
      std::copy_n(places.begin(), value.data.size(), value.data.begin());
    } else if (draw.order == Order::kOffsets) {
      value.data.front() = 0;
      value.data.back() = static_cast<double>(draw.index_limit - 1);
      std::ranges::sort(value.data);
    }
    inputs.push_back(std::move(value));
  }
  return inputs;
}

OpSite site_of(const OpCase& op_case) {
  const Op* op = find_op(op_case.op);
  EXPECT_NE(op, nullptr) << op_case.op;
  std::vector<SymbolicType> in;
  for (std::size_t i = 0; i < op_case.in.size(); ++i) {
    in.push_back(fixed_type(op_case.in[i], dtype_of(draw_of(op_case, i))));
  }
  const Result<SymbolicType> type = infer(*op, op_case.attrs, in);
  EXPECT_TRUE(type.ok()) << op_case.label << ": " << (type.ok() ? "" : type.error().to_string());
  return {op_case.attrs, op_case.in, type.ok() ? shape_of(*type) : Shape{}, nullptr,
          type.ok() ? type->dtype : DType::kF32};
}

std::vector<const Value*> pointers(const std::vector<Value>& values) {
  std::vector<const Value*> result;
  for (const Value& value : values) result.push_back(&value);
  return result;
}

Value evaluate(const OpCase& op_case, const std::vector<Value>& in, const Numerics& numerics) {
  const OpSite site = site_of(op_case);
  Value out;
  find_op(op_case.op)->evaluate(site, pointers(in), numerics, out);
  return out;
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases;
  for (const auto& make : {elementwise_cases, reduction_cases, rowwise_cases, contraction_cases,
                           stencil_cases, move_cases, loss_cases}) {
    for (OpCase& op_case : make()) cases.push_back(std::move(op_case));
  }
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i].label += "_" + std::to_string(i);
  return cases;
}

}  // namespace lathe
