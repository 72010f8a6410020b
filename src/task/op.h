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

/// The input of a shape rule. `same` decides whether two extents are equal, by value at every shape
/// of the task.
struct InferContext {
  const Attrs& attrs;
  std::vector<SymbolicType> in;
  std::function<bool(const Expr&, const Expr&)> same;
};

class ProductEngine;

/// Which part of a node's result is wanted, for Op::needs().
struct Demand {
  std::size_t input = 0;                     ///< of which input elements are counted
  std::int64_t wanted = 0;                   ///< elements of the result; which ones is not known
  std::vector<std::int64_t> constants = {};  ///< of each input: as Op::constants()
};

/// One node with its extents bound to numbers.
struct OpSite {
  const Attrs& attrs;
  std::vector<Shape> in;
  Shape out;
  ProductEngine* products = nullptr;  ///< for evaluate()'s large matrices; may be null
  DType dtype = DType::kF32;          ///< of the result
};

/// What values an input may have.
struct ValueRange {
  double low = 0;
  double high = 0;
};

/// What is known of an index tensor's values beside their limit.
enum class Order {
  kAny,
  kDistinct,  ///< none occurs twice
  kOffsets,   ///< they rise from 0 to the limit, which bounds the last of neighbouring segments
};

/// The arithmetic that a kernel may use, from which error bounds follow.
struct Numerics {
  double unit_roundoff = 0x1p-24;  ///< of the accumulator and of intermediate values
  double lambda = 5;               ///< a long sum's error is at most lambda * sqrt(n) * u * sum|terms|
  double underflow = 0x1p-126;     ///< what a result too small for the format loses: flushed, as hardware's
                                   ///< atomic additions do
  bool sparse_sums = false;        ///< n counts only non-zero terms, for the precision probe
  bool even_terms = false;  ///< terms are of one size and without a structure: a long sum's roundings cancel
  bool stores_narrow = true;  ///< values between ops may be rounded to their own dtype
  bool textbook = false;      ///< values as fp32 gives them by the formulas of textbooks, which overflow (a
                          ///< softmax without the maximum) or cancel (E[x^2] - E[x]^2): a mistake, for lint
};

/// A wrong variant of an op that a sound task must reject ("dropped_bias", "shrunk_k",
/// "skipped_tile"). `evaluate` writes `out.data`, or leaves it empty if the variant does not apply
/// (no bias was given).
struct OpMutant {
  std::string_view name;
  std::function<void(const OpSite&, std::span<const Value* const> in, Value& out)> evaluate;
};

/// How an op reads its inputs; naive emitters and catalogue patterns match on it.
enum class OpClass { kElementwise, kReduce, kRowwise, kContraction, kScan, kMove, kStencil, kLoss, kOther };

/// One operation of a task's graph. Stateless. Defined in task/ops/, registered in
/// ops/registry.cpp, listed in docs/tasks.md.
class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const = 0;
  virtual OpClass op_class() const = 0;
  virtual int min_inputs() const = 0;
  virtual int max_inputs() const { return min_inputs(); }
  virtual std::vector<AttrRule> attr_rules() const { return {}; }

  /// The result's type. Errors say what is wrong with the inputs; the caller adds the position.
  virtual Result<SymbolicType> infer(const InferContext& context) const = 0;

  /// The values that an input of the task must be declared to keep to, as an operand of this dtype;
  /// nothing where any will do.
  virtual std::optional<ValueRange> takes(std::size_t input, DType dtype) const {
    (void)input, (void)dtype;
    return std::nullopt;
  }

  /// What an index tensor of the task must be declared to be, as this operand.
  virtual Order order_of(std::size_t input) const {
    (void)input;
    return Order::kAny;
  }

  /// Computes the fp64 result and its first-order error bound: the propagated bounds of the inputs
  /// plus the op's own rounding (|y| * u for an elementwise op; f(n) * u * S for a sum, S =
  /// sum|terms|, f from ops/support/bounds.h). Fills `data` and `err` with element_count(site.out)
  /// entries.
  virtual void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                        Value& out) const = 0;

  /// Arithmetic operations of the textbook algorithm; transcendental functions count 1.
  virtual double flops(const OpSite& site) const = 0;
  /// A lower bound on the arithmetic; 0 if unknown. A kernel faster than its roofline time is
  /// SUSPECT.
  virtual double essential_flops(const OpSite& site) const { return flops(site); }

  /// A lower bound on the elements of an input that every kernel reads, whichever `wanted` elements
  /// of the result it has to give and whatever values they take; 0 if unknown.
  virtual std::int64_t needs(const OpSite& site, const Demand& demand) const {
    (void)site, (void)demand;
    return 0;
  }
  /// An upper bound on the elements of the result that are the first input's at the same place:
  /// where the result overwrites it, nobody need touch them.
  virtual std::int64_t kept(const OpSite& site) const {
    (void)site;
    return 0;
  }
  /// An upper bound on the elements of the result that are the same whatever the task's inputs are
  /// (zeros beside a triangle), given that of each input. What is multiplied by such an element
  /// need not be read.
  virtual std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const = 0;

  /// The multiplications of evaluate() that a product engine can take over.
  virtual double engine_multiplications(const OpSite& site) const {
    (void)site;
    return 0;
  }

  virtual std::vector<OpMutant> mutants() const { return {}; }

  /// For kElementwise: the axis of the result along which operands of rank 1 lie (a bias over the
  /// channels of NCHW). All other operands broadcast as in numpy.
  virtual std::optional<std::int64_t> channel_axis(const Attrs& attrs) const {
    (void)attrs;
    return std::nullopt;
  }

  /// For kElementwise: a C expression over scalars or vectors named by `operands`, made of
  /// operators and functions of device/lathe/cpu.h (lathe::exp(x), lathe::max(a, b)). Constants are
  /// float literals, which convert to vectors. An operand may occur several times, so pass names;
  /// parenthesise the result before using it in another expression. Empty for other classes.
  virtual std::string c_expression(const Attrs& attrs, std::span<const std::string> operands) const {
    (void)attrs, (void)operands;
    return {};
  }
};

/// nullptr if there is no such op.
const Op* find_op(std::string_view name);
std::vector<const Op*> all_ops();

}  // namespace lathe
