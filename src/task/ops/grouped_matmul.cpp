#include <algorithm>
#include <limits>
#include <numeric>

#include "task/ops/factories.h"
#include "task/ops/support/bilinear.h"
#include "task/ops/support/gemm.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// Rows of x [T, K], each times the matrix of its group: w [G, K, N], or [G, N, K] transposed. Rows
/// offsets[g] <= t < offsets[g + 1] are of group g. Offsets rise from 0 to T; others make all of
/// the result NaN.
class GroupedMatmul final : public NamedOp {
 public:
  GroupedMatmul()
      : NamedOp({"grouped_matmul", OpClass::kContraction, 3, 3, {{"transpose_b", AttrKind::kFlag}}}) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType &x = context.in[0], &w = context.in[1];
    LATHE_CHECK_OK(check_float({context.attrs, {x, w}, context.same}));
    LATHE_CHECK_OK(check_rank(context, 0, 2));
    LATHE_CHECK_OK(check_rank(context, 1, 3));
    LATHE_CHECK_OK(check_index(context, 2));
    const bool transposed = context.attrs.flag("transpose_b", false);
    const Expr &depth = w.shape[transposed ? 2 : 1], &columns = w.shape[transposed ? 1 : 2];
    if (!context.same(x.shape[1], depth))
      return invalid("the rows of input 1 have " + x.shape[1].to_string() +
                         " elements, but the matrices are " + describe(w),
                     "input 2 is [groups, K, N]; [groups, N, K] with transpose_b");
    LATHE_CHECK_OK(
        check_shape(context, 2, {w.shape[0] + Expr::constant(1)}, "one more than the matrices of input 2"));
    return SymbolicType{x.dtype, {x.shape[0], columns}};
  }

  Order order_of(std::size_t input) const override { return input == 2 ? Order::kOffsets : Order::kAny; }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    multiply(site, in, numerics, 0, out);
  }

  double flops(const OpSite& site) const override {
    return 2 * static_cast<double>(element_count(site.out)) * static_cast<double>(site.in[0][1]);
  }
  double essential_flops(const OpSite& site) const override { return flops(site); }

  /// All rows may be of one group. The first and the last offset are known.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const std::int64_t missing = element_count(site.out) - demand.wanted, depth = site.in[0][1];
    if (any_constant(demand) || demand.wanted <= 0) return 0;
    if (demand.input == 2) return missing > 0 ? 0 : site.in[1][0] - 1;
    if (demand.input == 0) return without(element_count(site.in[0]), missing, depth);
    return without(element_count(site.in[1]) / site.in[1][0], missing, depth);
  }

  std::vector<OpMutant> mutants() const override {
    return {{"other_group", [](const OpSite& site, std::span<const Value* const> in,
                               Value& out) { multiply(site, in, Numerics{.unit_roundoff = 0}, 1, out); }},
            {"shrunk_k", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const Value x = zero_tail(*in[0], 1, shrinkage(site.in[0][1]));
               const Value* const operands[] = {&x, in[1], in[2]};
               multiply(site, operands, Numerics{.unit_roundoff = 0}, 0, out);
             }}};
  }

 private:
  /// `shift`: how many groups further the matrix is taken from, which is a mistake.
  static void multiply(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                       std::size_t shift, Value& out) {
    const auto rows = static_cast<std::size_t>(site.in[0][0]),
               depth = static_cast<std::size_t>(site.in[0][1]),
               groups = static_cast<std::size_t>(site.in[1][0]),
               columns = static_cast<std::size_t>(site.out[1]);
    const std::vector<double>& offsets = in[2]->data;
    out.shape = site.out;
    if (offsets.front() != 0 || offsets.back() != static_cast<double>(rows) ||
        !std::ranges::is_sorted(offsets)) {
      prepare(site.out, needs_error(in.first(2), numerics), out);
      return out.data.assign(out.data.size(), std::numeric_limits<double>::quiet_NaN());
    }
    const bool transposed = site.attrs.flag("transpose_b", false);
    evaluate_bilinear(
        *in[0], *in[1], static_cast<double>(depth), numerics,
        [&]<class T>(const T* x, const T* w, T* y) {
          for (std::size_t g = 0; g < groups; ++g) {
            const auto first = static_cast<std::size_t>(offsets[g]),
                       end = static_cast<std::size_t>(offsets[g + 1]);
            const T* const matrix = w + (g + shift) % groups * depth * columns;
            if (first == end) continue;
            ops::multiply(MatrixProduct<T>{end - first,
                                           columns,
                                           depth,
                                           {x + first * depth, depth, 1},
                                           transposed ? MatrixView<T>{matrix, 1, depth}
                                                      : MatrixView<T>{matrix, columns, 1},
                                           y + first * columns},
                          site.products);
          }
        },
        out);
  }
};

}  // namespace

void add_grouped_matmul(OpList& list) { list.push_back(std::make_unique<GroupedMatmul>()); }

}  // namespace lathe::ops
