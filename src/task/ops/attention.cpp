#include "base/parallel.h"
#include "task/ops/factories.h"
#include "task/ops/support/bilinear.h"
#include "task/ops/support/gemm.h"
#include "task/ops/support/needs.h"
#include "task/ops/support/rowwise.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

struct AttentionSizes {
  std::size_t heads, queries, keys, depth, width;

  explicit AttentionSizes(const OpSite& site) {
    const auto extent = [&](std::size_t input, std::size_t from_end) {
      return static_cast<std::size_t>(site.in[input][site.in[input].size() - from_end]);
    };
    queries = extent(0, 2);
    depth = extent(0, 1);
    keys = extent(1, 2);
    width = extent(2, 1);
    heads = static_cast<std::size_t>(element_count(site.in[0])) / (queries * depth);
  }
};

/// The number of scores that one thread holds: about 40 MB in fp64 with bounds and intermediate
/// values.
constexpr std::size_t kScores = 1 << 20;

/// A view of rows of `columns` elements, starting at row `first`, counted over all heads.
Value slice(const Value& from, std::size_t first, std::size_t rows, std::size_t columns) {
  const auto at = static_cast<std::ptrdiff_t>(first * columns);
  const auto count = static_cast<std::ptrdiff_t>(rows * columns);
  Value result{{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)}, {}, {}};
  result.data.assign(from.data.begin() + at, from.data.begin() + at + count);
  if (!from.err.empty()) result.err.assign(from.err.begin() + at, from.err.begin() + at + count);
  return result;
}

/// Attention for queries of one head from `first` on: softmax(q k^T scale) v, where query i sees
/// the first visible(i) keys.
class Head {
 public:
  Head(const AttentionSizes& sizes, double scale, bool causal, const Numerics& numerics)
      : sizes_(sizes), scale_(scale), causal_(causal), numerics_(numerics) {}

  Value evaluate(std::size_t first, const Value& q, const Value& k, const Value& v) const {
    const std::int64_t queries = q.shape[0];
    const auto rows = static_cast<std::size_t>(queries);
    Value scores{.shape = {queries, static_cast<std::int64_t>(sizes_.keys)}, .data = {}, .err = {}};
    evaluate_bilinear(
        q, k, static_cast<double>(sizes_.depth), numerics_,
        [&](const auto* a, const auto* b, auto* c) { scores_of(rows, a, b, c); }, scores);
    Value weights;
    prepare(scores.shape, !scores.err.empty(), weights);
    for (std::size_t row = 0; row < rows; ++row) softmax_weights(row, visible(first + row), scores, weights);
    Value out{.shape = {queries, static_cast<std::int64_t>(sizes_.width)}, .data = {}, .err = {}};
    evaluate_bilinear(
        weights, v, static_cast<double>(sizes_.keys), numerics_,
        [&](const auto* a, const auto* b, auto* c) { mix(rows, a, b, c); }, out);
    return out;
  }

 private:
  template <class T>
  void scores_of(std::size_t rows, const T* q, const T* k, T* scores) const {
    gemm(rows, sizes_.keys, sizes_.depth, MatrixView<T>{q, sizes_.depth, 1},
         MatrixView<T>{k, 1, sizes_.depth}, scores, sizes_.keys);
  }
  template <class T>
  void mix(std::size_t rows, const T* weights, const T* v, T* out) const {
    gemm(rows, sizes_.width, sizes_.keys, MatrixView<T>{weights, sizes_.keys, 1},
         MatrixView<T>{v, sizes_.width, 1}, out, sizes_.width);
  }

  /// Causal: the last query sees every key.
  std::size_t visible(std::size_t query) const {
    if (!causal_) return sizes_.keys;
    const std::size_t hidden = sizes_.queries - 1 - query;
    return hidden < sizes_.keys ? sizes_.keys - hidden : 0;
  }

  void softmax_weights(std::size_t row, std::size_t count, Value& scores, Value& weights) const {
    if (count == 0) return;
    const std::size_t first = row * sizes_.keys;
    const std::size_t errors = scores.err.empty() ? 0 : count;
    for (std::size_t i = first; i < first + count; ++i) {
      scores.data[i] *= scale_;
      if (errors != 0)
        scores.err[i] = scores.err[i] * std::fabs(scale_) + 2 * rounding(numerics_, scores.data[i]);
    }
    softmax_row(RowView{{scores.data.data() + first, count},
                        {scores.err.data() + (errors != 0 ? first : 0), errors},
                        {weights.data.data() + first, count},
                        {weights.err.data() + (errors != 0 ? first : 0), errors}},
                numerics_);
  }

  const AttentionSizes& sizes_;
  double scale_;
  bool causal_;
  const Numerics& numerics_;
};

/// softmax(q k^T scale) v for q [..., L, D], k [..., S, D], v [..., S, E]; scale is 1 / sqrt(D)
/// unless given; `causal` hides from query i the keys after i + S - L.
class Attention final : public NamedOp {
 public:
  Attention()
      : NamedOp(
            {"attention", OpClass::kOther, 3, 3, {{"causal", AttrKind::kFlag}, {"scale", AttrKind::kReal}}}) {
  }

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float(context));
    const std::vector<Expr>& q = context.in[0].shape;
    if (q.size() < 2) return invalid("input 1 must have rank 2 or more, got " + describe(context.in[0]));
    LATHE_CHECK_OK(check_rank(context, 1, q.size()));
    LATHE_CHECK_OK(check_rank(context, 2, q.size()));
    std::vector<Expr> k = q;
    k[k.size() - 2] = context.in[1].shape[k.size() - 2];
    LATHE_CHECK_OK(check_shape(context, 1, k, "to fit input 1's heads and depth"));
    std::vector<Expr> v = k;
    v.back() = context.in[2].shape.back();
    LATHE_CHECK_OK(check_shape(context, 2, v, "a row for each key"));
    SymbolicType result = context.in[0];
    result.shape.back() = v.back();
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    run(site, in, numerics, site.attrs.flag("causal", false), out);
  }

  /// A query that sees one key gives its value whatever the scores are.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const AttentionSizes s(site);
    if (any_constant(demand) || demand.wanted < element_count(site.out)) return 0;
    if (demand.input == 2) return element_count(site.in[2]);
    if (s.keys < 2) return 0;
    if (demand.input == 1 || !site.attrs.flag("causal", false)) return element_count(site.in[demand.input]);
    return static_cast<std::int64_t>(s.heads * std::min(s.queries, s.keys - 1) * s.depth);
  }

  double flops(const OpSite& site) const override {
    const AttentionSizes s(site);
    const double pairs =
        static_cast<double>(s.heads * s.queries * s.keys) * (site.attrs.flag("causal", false) ? 0.5 : 1.0);
    return pairs * (2 * static_cast<double>(s.depth + s.width) + 5);
  }

  std::vector<OpMutant> mutants() const override {
    return {{"other_mask", [](const OpSite& site, std::span<const Value* const> in, Value& out) {
               run(site, in, Numerics{.unit_roundoff = 0}, !site.attrs.flag("causal", false), out);
             }}};
  }

 private:
  static void run(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics, bool causal,
                  Value& out) {
    const AttentionSizes s(site);
    prepare(site.out, needs_error(in, numerics), out);
    const double scale = site.attrs.real("scale", 1 / std::sqrt(static_cast<double>(s.depth)));
    const Head head(s, scale, causal, numerics);
    const double work =
        static_cast<double>(s.heads * s.queries) * static_cast<double>(s.keys * (s.depth + s.width));
    const std::size_t most = std::clamp<std::size_t>(kScores / s.keys, 1, s.queries);
    const std::size_t parts = (s.queries + most - 1) / most;
    for_each_job(static_cast<std::int64_t>(s.heads * parts), work, [&](std::int64_t job) {
      const std::size_t i = static_cast<std::size_t>(job) / parts,
                        part = static_cast<std::size_t>(job) % parts;
      const std::size_t first = part * most, row = i * s.queries + first;
      const Value result = head.evaluate(
          first, slice(*in[0], row, std::min(most, s.queries - first), s.depth),
          slice(*in[1], i * s.keys, s.keys, s.depth), slice(*in[2], i * s.keys, s.keys, s.width));
      const auto at = static_cast<std::ptrdiff_t>(row * s.width);
      std::copy(result.data.begin(), result.data.end(), out.data.begin() + at);
      std::copy(result.err.begin(), result.err.end(), out.err.begin() + at);
    });
  }
};

}  // namespace

void add_attention(OpList& list) { list.push_back(std::make_unique<Attention>()); }

}  // namespace lathe::ops
