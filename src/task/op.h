#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "task/attrs.h"
#include "task/tensor.h"

namespace lathe {

/// A tensor's dtype and extents as expressions over the task's dims.
struct SymbolicType {
  DType dtype = DType::kF32;
  std::vector<Expr> shape;
};

/// What a shape rule sees. `same` decides equality of extents (by value, over every shape of the task).
struct InferContext {
  const Attrs& attrs;
  std::vector<SymbolicType> in;
  std::function<bool(const Expr&, const Expr&)> same;
};

class ProductEngine;

/// One node with its extents bound to numbers.
struct OpSite {
  const Attrs& attrs;
  std::vector<Shape> in;
  Shape out;
  ProductEngine* products = nullptr;  ///< for the large matrices of evaluate(), where there is one
};

/// The arithmetic a kernel is allowed, from which error bounds follow.
struct Numerics {
  double unit_roundoff = 0x1p-24;  ///< of the accumulator and of intermediate values
  double lambda = 5;               ///< a long sum of n terms may err by lambda * sqrt(n) * u * sum|terms|
  bool sparse_sums = false;        ///< count only non-zero terms in n: the precision probe's sharper bound
};

/// A wrong variant of an op that a sound task must reject ("dropped_bias", "shrunk_k", "skipped_tile").
/// `evaluate` leaves `out.data` empty where the variant does not apply (no bias was given), else writes
/// `data`.
struct OpMutant {
  std::string_view name;
  std::function<void(const OpSite&, std::span<const Value* const> in, Value& out)> evaluate;
};

/// How an op reads its inputs: what naive emitters and catalogue patterns match on.
enum class OpClass { kElementwise, kReduce, kRowwise, kContraction, kScan, kMove, kStencil, kLoss, kOther };

/// One operation of a task's graph. Stateless; one file in task/ops/ each; registered in ops/registry.cpp.
class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const = 0;
  virtual OpClass op_class() const = 0;
  virtual int min_inputs() const = 0;
  virtual int max_inputs() const { return min_inputs(); }
  virtual std::vector<AttrRule> attr_rules() const { return {}; }

  /// The result's type, or an error that says what about the inputs is wrong (the caller adds the position).
  virtual Result<SymbolicType> infer(const InferContext& context) const = 0;

  /// fp64 result and its first-order error bound: what the inputs' bounds grow to, plus this op's own
  /// rounding (|y| * u for an elementwise op; f(n) * u * S for a sum with S = sum|terms|, f in
  /// ops/support/bounds.h). The result's `data` and `err` have element_count(site.out) entries on return.
  virtual void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                        Value& out) const = 0;

  /// Arithmetic operations of the textbook algorithm; transcendental functions count 1.
  virtual double flops(const OpSite& site) const = 0;
  /// Arithmetic that no algebra can avoid; 0 when unknown. Below its time a kernel is SUSPECT.
  virtual double essential_flops(const OpSite& site) const { return flops(site); }

  /// Of evaluate(), those that `products` takes over where that pays.
  virtual double engine_multiplications(const OpSite& site) const {
    (void)site;
    return 0;
  }

  virtual std::vector<OpMutant> mutants() const { return {}; }

  /// For kElementwise: operands broadcast as in numpy, except that those of rank 1 lie along this axis of the
  /// result where it is given (a bias over the channels of NCHW).
  virtual std::optional<std::int64_t> channel_axis(const Attrs& attrs) const {
    (void)attrs;
    return std::nullopt;
  }

  /// For kElementwise: the C expression on scalars or vectors named by `operands`, in terms of operators and
  /// device/lathe/cpu.h functions (lathe::exp(x), lathe::max(a, b)); constants are written `1.5f` and may
  /// stand where a vector is expected. An operand may occur several times, so name it; put the
  /// result in parentheses before operating on it. Empty otherwise.
  virtual std::string c_expression(const Attrs& attrs, std::span<const std::string> operands) const {
    (void)attrs, (void)operands;
    return {};
  }
};

/// nullptr if there is no such op.
const Op* find_op(std::string_view name);
std::vector<const Op*> all_ops();

}  // namespace lathe
