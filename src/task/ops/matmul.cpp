#include "task/ops/factories.h"
#include "task/ops/support/bilinear.h"
#include "task/ops/support/gemm.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// Integer products are int32; floating-point products keep the operands' format unless `out_dtype`
/// is given.
Result<DType> result_dtype(const InferContext& context) {
  const std::string wanted = context.attrs.text("out_dtype", "");
  if (!wanted.empty()) return parse_dtype(wanted);
  const DType dtype = context.in[0].dtype;
  return dtype == DType::kI8 || dtype == DType::kU8 ? DType::kI32 : dtype;
}

struct MatmulSizes {
  bool transpose_a;
  bool transpose_b;
  std::size_t m, n, k;
  Shape batch;    ///< of the result
  Shape batch_a;  ///< of each operand, before broadcasting
  Shape batch_b;
  ProductEngine* products;

  explicit MatmulSizes(const OpSite& site)
      : transpose_a(site.attrs.flag("transpose_a", false)),
        transpose_b(site.attrs.flag("transpose_b", false)),
        products(site.products) {
    const Shape& a = site.in[0];
    const Shape& b = site.in[1];
    m = static_cast<std::size_t>(a[a.size() - (transpose_a ? 1 : 2)]);
    k = static_cast<std::size_t>(a[a.size() - (transpose_a ? 2 : 1)]);
    n = static_cast<std::size_t>(b[b.size() - (transpose_b ? 2 : 1)]);
    batch.assign(site.out.begin(), site.out.end() - 2);
    batch_a.assign(a.begin(), a.end() - 2);
    batch_b.assign(b.begin(), b.end() - 2);
    const bool stack_rows = element_count(batch_b) == 1 && batch_a == batch && !transpose_a;
    if (stack_rows && element_count(batch) > 1) {
      m *= static_cast<std::size_t>(element_count(batch));
      batch = batch_a = batch_b = {};
    }
  }
};

template <class T>
void multiply(const MatmulSizes& sizes, const T* a, const T* b, T* c) {
  for_each_row<2>(sizes.batch, {sizes.batch_a, sizes.batch_b}, [&](const BroadcastRow<2>& row) {
    for (std::size_t i = 0; i < row.length; ++i) {
      MatrixView<T> left{a + (row.in[0] + i * row.step[0]) * sizes.m * sizes.k, sizes.k, 1};
      MatrixView<T> right{b + (row.in[1] + i * row.step[1]) * sizes.k * sizes.n, sizes.n, 1};
      if (sizes.transpose_a) left = {left.data, 1, sizes.m};
      if (sizes.transpose_b) right = {right.data, 1, sizes.k};
      T* const result = c + (row.out + i) * sizes.m * sizes.n;
      ops::multiply(MatrixProduct<T>{sizes.m, sizes.n, sizes.k, left, right, result}, sizes.products);
    }
  });
}

/// A matrix product over the last two axes (after transpose_a, transpose_b); leading axes
/// broadcast.
class Matmul final : public NamedOp {
 public:
  Matmul()
      : NamedOp(
            {"matmul",
             OpClass::kContraction,
             2,
             2,
             {{"transpose_a", AttrKind::kFlag},
              {"transpose_b", AttrKind::kFlag},
              {"out_dtype", AttrKind::kText, false, {"fp64", "fp32", "fp16", "bf16", "int32", "int64"}}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_numeric(context));
    for (std::size_t i = 0; i < 2; ++i) {
      if (context.in[i].shape.size() >= 2) continue;
      return invalid(
          "input " + std::to_string(i + 1) + " must have rank 2 or more, got " + describe(context.in[i]),
          "reshape a vector to [K, 1] or [1, K]");
    }
    std::vector<Expr> a = context.in[0].shape;
    std::vector<Expr> b = context.in[1].shape;
    if (context.attrs.flag("transpose_a", false)) std::swap(a[a.size() - 1], a[a.size() - 2]);
    if (context.attrs.flag("transpose_b", false)) std::swap(b[b.size() - 1], b[b.size() - 2]);
    const Expr rows = a[a.size() - 2];
    const Expr columns = b.back();
    if (!context.same(a.back(), b[b.size() - 2])) {
      return invalid("inner extents differ: " + describe(a) + " times " + describe(b) + " has " +
                         a.back().to_string() + " against " + b[b.size() - 2].to_string(),
                     "set transpose_a or transpose_b if an operand is stored transposed");
    }
    a.resize(a.size() - 2);
    b.resize(b.size() - 2);
    LATHE_TRY(std::vector<Expr> shape, broadcast(context, a, b));
    shape.push_back(rows);
    shape.push_back(columns);
    LATHE_TRY(const DType dtype, result_dtype(context));
    return SymbolicType{dtype, std::move(shape)};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    const MatmulSizes sizes(site);
    out.shape = site.out;
    evaluate_bilinear(
        *in[0], *in[1], static_cast<double>(sizes.k), numerics,
        [&](const auto* a, const auto* b, auto* c) { multiply(sizes, a, b, c); }, out);
  }

  double flops(const OpSite& site) const override {
    const Shape& a = site.in[0];
    const std::int64_t k = a[a.size() - (site.attrs.flag("transpose_a", false) ? 2 : 1)];
    return 2 * static_cast<double>(element_count(site.out)) * static_cast<double>(k);
  }
  double essential_flops(const OpSite& site) const override { return flops(site); }
  double engine_multiplications(const OpSite& site) const override { return flops(site) / 2; }

  std::vector<OpMutant> mutants() const override {
    return {{"shrunk_k", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const MatmulSizes sizes(site);
               const bool transposed = site.attrs.flag("transpose_a", false);
               const std::size_t axis = site.in[0].size() - (transposed ? 2 : 1);
               const Value a = zero_tail(*in[0], axis, shrinkage(site.in[0][axis]));
               prepare(site.out, false, out);
               multiply(sizes, a.data.data(), in[1]->data.data(), out.data.data());
             }}};
  }
};

}  // namespace

void add_matmul(OpList& list) { list.push_back(std::make_unique<Matmul>()); }

}  // namespace lathe::ops
