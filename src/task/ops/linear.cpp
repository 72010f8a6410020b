#include "task/ops/factories.h"
#include "task/ops/support/bilinear.h"
#include "task/ops/support/gemm.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

struct LinearSizes {
  std::size_t m, n, k;
  ProductEngine* products;

  explicit LinearSizes(const OpSite& site)
      : n(static_cast<std::size_t>(site.in[1][0])),
        k(static_cast<std::size_t>(site.in[1][1])),
        products(site.products) {
    m = static_cast<std::size_t>(element_count(site.in[0])) / k;
  }
};

template <class T>
void multiply(const LinearSizes& sizes, const T* x, const T* weight, T* y) {
  const MatrixView<T> left{x, sizes.k, 1}, right{weight, 1, sizes.k};
  ops::multiply(MatrixProduct<T>{sizes.m, sizes.n, sizes.k, left, right, y}, sizes.products);
}

/// x [..., K] times weight [N, K] transposed, plus bias [N] if given.
class Linear final : public NamedOp {
 public:
  Linear() : NamedOp({"linear", OpClass::kContraction, 2, 3}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    LATHE_CHECK_OK(check_rank(context, 1, 2));
    SymbolicType result = context.in[0];
    const std::vector<Expr>& weight = context.in[1].shape;
    if (result.shape.empty()) return invalid("input 1 must have rank 1 or more, got " + describe(result));
    if (!context.same(result.shape.back(), weight[1])) {
      return invalid("input 1 has " + result.shape.back().to_string() + " features but the weight is " +
                         describe(weight),
                     "the weight is [outputs, inputs]");
    }
    if (context.in.size() > 2) LATHE_CHECK_OK(check_shape(context, 2, {weight[0]}, "the rows of the weight"));
    result.shape.back() = weight[0];
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    const LinearSizes sizes(site);
    out.shape = site.out;
    evaluate_bilinear(
        *in[0], *in[1], static_cast<double>(sizes.k), numerics,
        [&](const auto* x, const auto* weight, auto* y) { multiply(sizes, x, weight, y); }, out);
    if (in.size() > 2) add_bias(*in[2], 1, numerics, out);
  }

  double flops(const OpSite& site) const override {
    const double outputs = static_cast<double>(element_count(site.out));
    return outputs * (2 * static_cast<double>(LinearSizes(site).k) + (site.in.size() > 2 ? 1 : 0));
  }
  double essential_flops(const OpSite& site) const override { return flops(site); }
  double engine_multiplications(const OpSite& site) const override { return flops(site) / 2; }

  std::vector<OpMutant> mutants() const override {
    return {{"dropped_bias",
             [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               if (in.size() == 3) evaluate(site, in.first(2), Numerics{.unit_roundoff = 0}, out);
             }},
            {"shrunk_k", [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const Value weight = zero_tail(*in[1], 1, shrinkage(site.in[1][1]));
               std::vector<const Value*> operands(in.begin(), in.end());
               operands[1] = &weight;
               evaluate(site, operands, Numerics{.unit_roundoff = 0}, out);
             }}};
  }
};

}  // namespace

void add_linear(OpList& list) { list.push_back(std::make_unique<Linear>()); }

}  // namespace lathe::ops
