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
  std::size_t own = 1, shared = 1;  ///< heads of one item of the batch: of the queries, of the keys

  explicit AttentionSizes(const OpSite& site) {
    const auto extent = [&](std::size_t input, std::size_t from_end) {
      return static_cast<std::size_t>(site.in[input][site.in[input].size() - from_end]);
    };
    queries = extent(0, 2);
    depth = extent(0, 1);
    keys = extent(1, 2);
    width = extent(2, 1);
    heads = static_cast<std::size_t>(element_count(site.in[0])) / (queries * depth);
    if (site.in[0].size() < 3) return;
    own = extent(0, 3);
    shared = extent(1, 3);
  }
};

/// What an honest kernel reads, or a mutant.
struct Reading {
  bool causal = false;
  bool all_keys = false;     ///< whatever the index of the last one
  bool interleaved = false;  ///< neighbouring heads read different keys
};

/// How many keys the sequence of a head has: those up to its last one.
std::size_t known_keys(const AttentionSizes& s, std::span<const Value* const> in, std::size_t head,
                       const Reading& reading) {
  if (in.size() < 4 || reading.all_keys) return s.keys;
  const double last = in[3]->data[head / s.own];
  return static_cast<std::size_t>(std::clamp(last + 1, 0.0, static_cast<double>(s.keys)));
}

/// The head of the keys that a head of the queries reads, both counted over the batch.
std::size_t key_head(const AttentionSizes& s, std::size_t head, const Reading& reading) {
  const std::size_t within = head % s.own;
  return head / s.own * s.shared + (reading.interleaved ? within % s.shared : within / (s.own / s.shared));
}

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
/// the first visible(i) keys of `known`.
class Head {
 public:
  Head(const AttentionSizes& sizes, double scale, std::size_t known, bool causal, const Numerics& numerics)
      : sizes_(sizes), scale_(scale), known_(known), causal_(causal), numerics_(numerics) {}

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
        weights, v, static_cast<double>(std::max<std::size_t>(known_, 1)), numerics_,
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

  /// Causal: the last query sees every known key.
  std::size_t visible(std::size_t query) const {
    if (!causal_) return known_;
    const std::size_t hidden = sizes_.queries - 1 - query;
    return hidden < known_ ? known_ - hidden : 0;
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
  std::size_t known_;
  bool causal_;
  const Numerics& numerics_;
};

/// softmax(q k^T scale) v for q [..., H, L, D], k [..., G, S, D], v [..., G, S, E], where H / G
/// neighbouring heads read the same keys; scale is 1 / sqrt(D) unless given. A fourth input [...]
/// is the index of each sequence's last key. `causal` hides from query i the L - 1 - i last keys.
class Attention final : public NamedOp {
 public:
  Attention()
      : NamedOp(
            {"attention", OpClass::kOther, 3, 4, {{"causal", AttrKind::kFlag}, {"scale", AttrKind::kReal}}}) {
  }

  Result<SymbolicType> infer(const InferContext& context) const override {
    LATHE_CHECK_OK(check_float({context.attrs, {context.in.begin(), context.in.begin() + 3}, context.same}));
    const std::vector<Expr>& q = context.in[0].shape;
    if (q.size() < 2) return invalid("input 1 must have rank 2 or more, got " + describe(context.in[0]));
    LATHE_CHECK_OK(check_rank(context, 1, q.size()));
    LATHE_CHECK_OK(check_rank(context, 2, q.size()));
    std::vector<Expr> k = q;
    k[k.size() - 2] = context.in[1].shape[k.size() - 2];
    if (q.size() > 2) {
      const Expr& own = q[q.size() - 3];
      const Expr& shared = context.in[1].shape[q.size() - 3];
      if (context.same(own / shared * shared, own)) k[k.size() - 3] = shared;
    }
    LATHE_CHECK_OK(check_shape(context, 1, k, "to fit input 1's heads and depth"));
    std::vector<Expr> v = k;
    v.back() = context.in[2].shape.back();
    LATHE_CHECK_OK(check_shape(context, 2, v, "a row for each key"));
    if (context.in.size() > 3) LATHE_CHECK_OK(check_last(context));
    SymbolicType result = context.in[0];
    result.shape.back() = v.back();
    return result;
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    run(site, in, numerics, {.causal = site.attrs.flag("causal", false)}, out);
  }

  /// A query that sees one key gives its value whatever the scores are; every sequence has a first
  /// key, which its last query sees.
  std::int64_t needs(const OpSite& site, const Demand& demand) const override {
    const AttentionSizes s(site);
    if (any_constant(demand) || demand.wanted < element_count(site.out)) return 0;
    const std::int64_t values = element_count(site.in[2]);
    if (site.in.size() > 3) return demand.input == 2 ? values / static_cast<std::int64_t>(s.keys) : 0;
    if (demand.input == 2) return values;
    if (s.keys < 2) return 0;
    if (demand.input == 1 || !site.attrs.flag("causal", false)) return element_count(site.in[demand.input]);
    return static_cast<std::int64_t>(s.heads * std::min(s.queries, s.keys - 1) * s.depth);
  }

  /// The first L - S queries of a causal attention see no key.
  std::int64_t constants(const OpSite& site, const std::vector<std::int64_t>& in) const override {
    const AttentionSizes s(site);
    const bool causal = site.attrs.flag("causal", false);
    const std::size_t blind = causal && s.queries > s.keys ? s.queries - s.keys : 0;
    return std::max(NamedOp::constants(site, in), static_cast<std::int64_t>(s.heads * blind * s.width));
  }

  double flops(const OpSite& site) const override {
    const AttentionSizes s(site);
    const bool partly = site.attrs.flag("causal", false) || site.in.size() > 3;
    const double pairs = static_cast<double>(s.heads * s.queries * s.keys) * (partly ? 0.5 : 1.0);
    return pairs * (2 * static_cast<double>(s.depth + s.width) + 5);
  }

  std::vector<OpMutant> mutants() const override {
    const auto reads = [](const OpSite& site, std::span<const Value* const> in, Reading reading, Value& out) {
      reading.causal = reading.causal != site.attrs.flag("causal", false);
      run(site, in, Numerics{.unit_roundoff = 0}, reading, out);
    };
    return {{"other_mask", [=](const OpSite& site, std::span<const Value* const> in,
                               Value& out) { reads(site, in, {.causal = true}, out); }},
            {"all_keys",
             [=](const OpSite& site, std::span<const Value* const> in, Value& out) {
               if (in.size() > 3) reads(site, in, {.all_keys = true}, out);
             }},
            {"interleaved_heads", [=](const OpSite& site, std::span<const Value* const> in, Value& out) {
               const AttentionSizes s(site);
               if (s.shared > 1 && s.shared < s.own) reads(site, in, {.interleaved = true}, out);
             }}};
  }

 private:
  static Status check_last(const InferContext& context) {
    const std::vector<Expr>& q = context.in[0].shape;
    LATHE_CHECK_OK(check_index(context, 3));
    if (q.size() < 4)
      return invalid("input 4 needs axes before the heads of input 1, got " + describe(context.in[0]));
    return check_shape(context, 3, {q.begin(), q.end() - 3}, "the axes before the heads of input 1");
  }

  static void run(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                  const Reading& reading, Value& out) {
    const AttentionSizes s(site);
    prepare(site.out, needs_error(in, numerics), out);
    const double scale = site.attrs.real("scale", 1 / std::sqrt(static_cast<double>(s.depth)));
    const double work =
        static_cast<double>(s.heads * s.queries) * static_cast<double>(s.keys * (s.depth + s.width));
    const std::size_t most = std::clamp<std::size_t>(kScores / s.keys, 1, s.queries);
    const std::size_t parts = (s.queries + most - 1) / most;
    for_each_job(static_cast<std::int64_t>(s.heads * parts), work, [&](std::int64_t job) {
      const std::size_t i = static_cast<std::size_t>(job) / parts,
                        part = static_cast<std::size_t>(job) % parts;
      const std::size_t first = part * most, row = i * s.queries + first;
      const std::size_t key = key_head(s, i, reading) * s.keys;
      const Head head(s, scale, known_keys(s, in, i, reading), reading.causal, numerics);
      const Value result =
          head.evaluate(first, slice(*in[0], row, std::min(most, s.queries - first), s.depth),
                        slice(*in[1], key, s.keys, s.depth), slice(*in[2], key, s.keys, s.width));
      const auto at = static_cast<std::ptrdiff_t>(row * s.width);
      std::copy(result.data.begin(), result.data.end(), out.data.begin() + at);
      std::copy(result.err.begin(), result.err.end(), out.err.begin() + at);
    });
  }
};

}  // namespace

void add_attention(OpList& list) { list.push_back(std::make_unique<Attention>()); }

}  // namespace lathe::ops
