#include <limits>

#include "task/ops/support/move.h"
#include "task/ops/support/needs.h"

namespace lathe::ops {
namespace {

/// Slices of x along `axis`, selected by an integer tensor (numpy's take). `embedding` is axis 0
/// with the inputs (table [V, ...], index). An index outside the axis gives NaN.
class Gather final : public MoveOp {
 public:
  explicit Gather(std::string_view name, std::vector<AttrRule> rules)
      : MoveOp({name, OpClass::kMove, 2, 2, std::move(rules)}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType& x = context.in[0];
    const SymbolicType& index = context.in[1];
    LATHE_CHECK_OK(check_index(context, 1));
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, 0, x.shape.size()));
    const auto middle = x.shape.begin() + static_cast<std::ptrdiff_t>(axis);
    SymbolicType result{x.dtype, {x.shape.begin(), middle}};
    result.shape.insert(result.shape.end(), index.shape.begin(), index.shape.end());
    result.shape.insert(result.shape.end(), middle + 1, x.shape.end());
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    prepare_move(site, in.first(1), out);
    const Value& x = *in[0];
    const std::vector<double>& index = in[1]->data;
    const Lines lines = lines_along(site.in[0], wrap_axis(site.attrs.integer("axis", 0), site.in[0].size()));
    std::size_t to = 0;
    for (std::size_t outer = 0; outer < lines.count / lines.stride; ++outer) {
      for (const double wanted : index) {
        const bool valid = is_place(wanted, lines.length);
        const std::size_t row = valid ? static_cast<std::size_t>(wanted) : 0;
        const std::size_t from = (outer * lines.length + row) * lines.stride;
        for (std::size_t i = 0; i < lines.stride; ++i, ++to) {
          out.data[to] = valid ? x.data[from + i] : std::numeric_limits<double>::quiet_NaN();
          if (!out.err.empty()) out.err[to] = x.error_at(from + i);
        }
      }
    }
  }

  /// Rows of the table may repeat.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const bool one_row = site.in[0][wrap_axis(site.attrs.integer("axis", 0), site.in[0].size())] < 2;
    if (demand.input == 0 || one_row || any_constant(demand)) return 0;
    return spread_over(demand.wanted, element_count(site.out), element_count(site.in[1]));
  }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    return in[0] + in[1] > 0 ? element_count(site.out) : 0;
  }

  std::vector<OpMutant> mutants() const override {
    return {{"first_row", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const Value zeros{in[1]->shape, std::vector<double>(in[1]->data.size()), {}};
               const Value* const operands[] = {in[0], &zeros};
               evaluate(site, operands, Numerics{}, out);
             }}};
  }
};

}  // namespace

void add_gather(OpList& list) {
  list.push_back(std::make_unique<Gather>("gather", std::vector<AttrRule>{{"axis", AttrKind::kInteger}}));
  list.push_back(std::make_unique<Gather>("embedding", std::vector<AttrRule>{}));
}

}  // namespace lathe::ops
