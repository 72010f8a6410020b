#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/jumps.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

std::size_t first_extremum(const double* x, std::size_t length, std::size_t stride, bool largest) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < length; ++i) {
    const double candidate = x[i * stride];
    const double current = x[best * stride];
    if (largest ? candidate > current : candidate < current) best = i;
  }
  return best;
}

/// The int64 index along `axis` (default: the last) of the first largest or smallest element.
class ArgExtremum final : public NamedOp {
 public:
  ArgExtremum(std::string_view name, bool largest)
      : NamedOp(
            {name, OpClass::kReduce, 1, 1, {{"axis", AttrKind::kInteger}, {"keepdims", AttrKind::kFlag}}}),
        largest_(largest) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    std::vector<Expr> shape = context.in[0].shape;
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, shape.size()));
    if (context.attrs.flag("keepdims", false)) {
      shape[axis] = Expr::constant(1);
    } else {
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    }
    return SymbolicType{DType::kI64, std::move(shape)};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    prepare(site.out, false, out);
    const std::size_t axis = wrap_axis(site.attrs.integer("axis", -1), site.in[0].size());
    const Lines lines = lines_along(site.in[0], axis);
    for (std::size_t line = 0; line < lines.count; ++line) {
      const double* x = in[0]->data.data() + lines.start(line);
      out.data[line] = static_cast<double>(first_extremum(x, lines.length, lines.stride, largest_));
    }
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.in[0])); }

  std::vector<OpMutant> mutants() const override {
    return {{"other_extremum", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               ArgExtremum(name(), !largest_).evaluate(site, in, Numerics{}, out);
             }}};
  }

  std::vector<double> telling(const Attrs&, std::size_t, DType dtype) const override {
    return close_ends(dtype);
  }

 private:
  bool largest_;
};

}  // namespace

void add_argmax(OpList& list) {
  list.push_back(std::make_unique<ArgExtremum>("argmax", true));
  list.push_back(std::make_unique<ArgExtremum>("argmin", false));
}

}  // namespace lathe::ops
