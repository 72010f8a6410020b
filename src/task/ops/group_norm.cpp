#include "task/ops/factories.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// x [N, C, ...] with each group of C / groups channels brought to mean 0 and variance 1, then
/// scaled by gamma [C] and shifted by beta [C], if given. instance_norm has one channel a group.
class GroupNorm final : public NamedOp {
 public:
  GroupNorm(std::string_view name, bool one_channel)
      : NamedOp({name, OpClass::kRowwise, 1, 3, rules(one_channel)}), one_channel_(one_channel) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    const SymbolicType& x = context.in[0];
    if (x.shape.size() < 2) return invalid("input 1 must have rank 2 or more, got " + describe(x));
    for (std::size_t i = 1; i < context.in.size(); ++i) {
      LATHE_CHECK_OK(check_shape(context, i, {x.shape[1]}, "the channels of input 1"));
    }
    if (!one_channel_) {
      LATHE_TRY(const Expr groups, context.attrs.expression("groups", Expr::constant(1)));
      const Expr positive = Expr::apply(">=", groups, Expr::constant(1));
      if (!context.same(positive, Expr::constant(1)) ||
          !context.same(x.shape[1] / groups * groups, x.shape[1])) {
        return invalid(x.shape[1].to_string() + " channels do not divide into " + groups.to_string() +
                       " groups");
      }
    }
    return x;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    prepare(site.out, needs_error(in, numerics), out);
    const double eps = site.attrs.real("eps", 1e-5);
    const auto channels = static_cast<std::size_t>(site.out[1]);
    const std::size_t groups =
        one_channel_ ? channels : static_cast<std::size_t>(site.attrs.integer("groups", 1));
    const std::size_t area = lines_along(site.out, 1).stride;
    const Value* gamma = in.size() > 1 ? in[1] : nullptr;
    const Value* beta = in.size() > 2 ? in[2] : nullptr;
    const Lines rows{static_cast<std::size_t>(site.out[0]) * groups, channels / groups * area, 1};
    std::size_t group = 0;
    for_each_line(rows, *in[0], out, [&](const RowView& row) {
      standardise(row, eps, numerics);
      const std::size_t first = group++ % groups * (channels / groups);
      for (std::size_t i = 0; i < row.y.size(); ++i) {
        scale_and_shift(row, i, gamma, beta, first + i / area, numerics);
      }
    });
  }

  double flops(const OpSite& site) const override {
    return (4 + static_cast<double>(site.in.size())) * static_cast<double>(element_count(site.out));
  }

  std::vector<OpMutant> mutants() const override {
    return {{"dropped_bias", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               if (in.size() == 3) evaluate(site, in.first(2), Numerics{.unit_roundoff = 0}, out);
             }}};
  }

 private:
  static std::vector<AttrRule> rules(bool one_channel) {
    std::vector<AttrRule> rules{{"eps", AttrKind::kReal}};
    if (!one_channel) rules.push_back({"groups", AttrKind::kInteger, true});
    return rules;
  }

  bool one_channel_;
};

}  // namespace

void add_group_norm(OpList& list) {
  list.push_back(std::make_unique<GroupNorm>("group_norm", false));
  list.push_back(std::make_unique<GroupNorm>("instance_norm", true));
}

}  // namespace lathe::ops
