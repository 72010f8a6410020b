#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// A vector's length, at least eps, with its relative error.
struct Length {
  double value;
  double relative_error;
};

/// a b / (max(|a|, eps) max(|b|, eps)) of the lines along `axis` (default: the last) of two tensors
/// of one shape.
class CosineSimilarity final : public NamedOp {
 public:
  CosineSimilarity()
      : NamedOp({"cosine_similarity",
                 OpClass::kReduce,
                 2,
                 2,
                 {{"axis", AttrKind::kInteger}, {"keepdims", AttrKind::kFlag}, {"eps", AttrKind::kReal}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    SymbolicType result = context.in[0];
    LATHE_CHECK_OK(check_shape(context, 1, result.shape, "that of input 1"));
    LATHE_TRY(const std::size_t axis, axis_attr(context.attrs, -1, result.shape.size()));
    if (!(context.attrs.real("eps", kEps) > 0)) return invalid("attribute 'eps' must be positive");
    if (context.attrs.flag("keepdims", false)) {
      result.shape[axis] = Expr::constant(1);
    } else {
      result.shape.erase(result.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    }
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    compare_lines(site, in, numerics, 0, out);
  }

  double flops(const OpSite& site) const override {
    return 6 * static_cast<double>(element_count(site.in[0]));
  }

  std::vector<OpMutant> mutants() const override {
    return {{"skipped_tail", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const std::size_t length = lines(site).length;
               if (length > 1)
                 compare_lines(site, in, Numerics{.unit_roundoff = 0}, std::max<std::size_t>(1, length / 8),
                               out);
             }}};
  }

 private:
  static constexpr double kEps = 1e-8;

  static Lines lines(const OpSite& site) {
    return lines_along(site.in[0], wrap_axis(site.attrs.integer("axis", -1), site.in[0].size()));
  }

  static void compare_lines(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                            std::size_t skipped, Value& out) {
    prepare(site.out, needs_error(in, numerics), out);
    const double eps = site.attrs.real("eps", kEps);
    const Lines along = lines(site);
    for (std::size_t line = 0; line < along.count; ++line) {
      const auto at = [&](std::size_t i) { return along.start(line) + i * along.stride; };
      const std::size_t used = along.length - skipped;
      const Length a = length(*in[0], used, at, eps, numerics), b = length(*in[1], used, at, eps, numerics);
      double product = 0;
      SumBound bound;
      for (std::size_t i = 0; i < used; ++i) {
        const double x = in[0]->data[at(i)], y = in[1]->data[at(i)];
        const double ex = in[0]->error_at(at(i)), ey = in[1]->error_at(at(i));
        product += x * y;
        bound.add(x * y, std::fabs(x) * ey + std::fabs(y) * ex + ex * ey);
      }
      const double lengths = a.value * b.value, relative = a.relative_error + b.relative_error;
      out.data[line] = product / lengths;
      if (out.err.empty()) continue;
      out.err[line] = bound.total(numerics) / lengths * (1 + relative) +
                      std::fabs(out.data[line]) * (relative + 2 * kRefined * numerics.unit_roundoff) +
                      rounding(numerics, out.data[line]);
    }
  }

  template <class At>
  static Length length(const Value& x, std::size_t used, At at, double eps, const Numerics& numerics) {
    double squares = 0;
    SumBound bound;
    for (std::size_t i = 0; i < used; ++i) {
      const double value = x.data[at(i)], e = x.error_at(at(i));
      squares += value * value;
      bound.add(value * value, (2 * std::fabs(value) + e) * e);
    }
    const double result = std::max(std::sqrt(squares), eps);
    const double moved = sqrt_error(std::max(squares, eps * eps), bound.total(numerics));
    return {result, moved / result + kRefined * numerics.unit_roundoff};
  }
};

}  // namespace

void add_cosine_similarity(OpList& list) { list.push_back(std::make_unique<CosineSimilarity>()); }

}  // namespace lathe::ops
