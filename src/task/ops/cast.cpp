#include "task/ops/support/elementwise.h"

namespace lathe::ops {
namespace {

/// The same values in another floating-point format. The reference keeps them exact: whoever stores a node in
/// a narrow format adds that format's rounding to its bound.
class Cast final : public NamedOp {
 public:
  Cast()
      : NamedOp({"cast",
                 OpClass::kElementwise,
                 1,
                 1,
                 {{"dtype", AttrKind::kText, true, {"fp64", "fp32", "fp16", "bf16"}}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_TRY(const DType dtype, parse_dtype(context.attrs.text("dtype", "")));
    return SymbolicType{dtype, context.in[0].shape};
  }

  void evaluate(const OpSite&, std::span<const Value* const> in, const Numerics&, Value& out) const override {
    out = *in[0];
  }

  double flops(const OpSite&) const override { return 0; }

  std::string c_expression(const Attrs&, std::span<const std::string> operands) const override {
    return operands[0];
  }
};

}  // namespace

void add_cast(OpList& list) { list.push_back(std::make_unique<Cast>()); }

}  // namespace lathe::ops
