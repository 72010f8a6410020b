#include "task/ops/support/elementwise.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/needs.h"

namespace lathe::ops {
namespace {

/// out = condition != 0 ? a : b, all three broadcast. The condition may have any dtype.
class Where final : public NamedOp {
 public:
  Where() : NamedOp({"where", OpClass::kElementwise, 3, 3}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    if (context.in[1].dtype != context.in[2].dtype) {
      return invalid("inputs 2 and 3 have different dtypes: " + describe(context.in[1]) + " and " +
                     describe(context.in[2]));
    }
    LATHE_TRY(auto values, broadcast(context, context.in[1].shape, context.in[2].shape));
    LATHE_TRY(auto shape, broadcast(context, context.in[0].shape, values));
    return SymbolicType{context.in[1].dtype, std::move(shape)};
  }

  /// If the condition's own error may flip it, either value is possible.
  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics&,
                Value& out) const override {
    prepare(site.out, needs_error(in, Numerics{.unit_roundoff = 0}), out);
    for_each_row<3>(site.out, {site.in[0], site.in[1], site.in[2]}, [&](const BroadcastRow<3>& row) {
      for (std::size_t i = 0; i < row.length; ++i) {
        const std::size_t ic = row.in[0] + i * row.step[0];
        const std::size_t ia = row.in[1] + i * row.step[1];
        const std::size_t ib = row.in[2] + i * row.step[2];
        const bool first = in[0]->data[ic] != 0;
        out.data[row.out + i] = first ? in[1]->data[ia] : in[2]->data[ib];
        if (out.err.empty()) continue;
        double error = first ? in[1]->error_at(ia) : in[2]->error_at(ib);
        if (in[0]->error_at(ic) > 0 && std::fabs(in[0]->data[ic]) <= in[0]->error_at(ic)) {
          error = std::max(in[1]->error_at(ia), in[2]->error_at(ib)) +
                  std::fabs(in[1]->data[ia] - in[2]->data[ib]);
        }
        out.err[row.out + i] = error;
      }
    });
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.out)); }

  /// Of the two values a kernel need not read the one that is not chosen.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    return demand.input == 0 ? NamedOp::needs(site, demand) : 0;
  }
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    return std::ranges::any_of(in, [](std::int64_t count) { return count > 0; }) ? element_count(site.out)
                                                                                 : 0;
  }

  std::string c_expression(const Attrs&, std::span<const std::string> operands) const override {
    return "lathe::select(lathe::ne(" + operands[0] + ", 0.0f), " + operands[1] + ", " + operands[2] + ")";
  }

  std::vector<OpMutant> mutants() const override {
    return {{"always_first", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               prepare(site.out, false, out);
               for_each_row<1>(site.out, {site.in[1]}, [&](const BroadcastRow<1>& row) {
                 for (std::size_t i = 0; i < row.length; ++i) {
                   out.data[row.out + i] = in[1]->data[row.in[0] + i * row.step[0]];
                 }
               });
             }}};
  }
};

}  // namespace

void add_where(OpList& list) { list.push_back(std::make_unique<Where>()); }

}  // namespace lathe::ops
