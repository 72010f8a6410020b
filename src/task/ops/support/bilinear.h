#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "task/ops/support/bounds.h"

namespace lathe::ops {

/// |x| * factor + error, scaled by `scale` into fp32: what bounds are computed in, at half the
/// cost.
std::vector<float> magnitudes(const Value& x, double factor, bool with_error, double scale);
/// 1 where a kernel may have another number than zero.
std::vector<float> nonzero_flags(const Value& x);
double largest_magnitude(const Value& x, bool with_error);
/// to += factor * added.
void add_scaled(const std::vector<float>& added, double factor, std::vector<double>& to);
/// to *= the relative error of a sum of `terms` terms with unit roundoff u.
void scale_by_sums(const std::vector<float>& terms, const Numerics& numerics, std::vector<double>& to);

/// A product out = B(a, b), linear in each: matmul, convolutions. `apply(a, b, c)` computes it for
/// pointers to double and to float, overwriting c. `terms` is the largest number of products that
/// one element adds up.
///
/// Bound, with u the roundoff: f(n) u B(|a|, |b|) + B(|a| + ea, eb) + B(ea, |b|). Magnitudes are
/// scaled to 1 first, so that fp32 underflow in them is below fp32's own.
template <class Apply>
void evaluate_bilinear(const Value& a, const Value& b, double terms, const Numerics& numerics, Apply apply,
                       Value& out) {
  const Value* inputs[] = {&a, &b};
  prepare(out.shape, needs_error(inputs, numerics), out);
  apply(a.data.data(), b.data.data(), out.data.data());
  out.terms = terms;
  if (out.err.empty()) return;

  const double u = numerics.unit_roundoff;
  const double largest_a = largest_magnitude(a, true);
  const double largest_b = largest_magnitude(b, true);
  const double scale_a = largest_a > 0 ? 1 / largest_a : 1;
  const double scale_b = largest_b > 0 ? 1 / largest_b : 1;
  constexpr double kSmallest = 0x1p-149;  // the sums of magnitudes below are fp32
  const double inflate = (1 + terms * 0x1p-24) / (scale_a * scale_b);
  const double floor = (u > 0 ? terms * numerics.underflow : 0) + terms * kSmallest * inflate;
  auto partial = zero_vector<float>(out.err.size());
  const auto add_product = [&](const std::vector<float>& x, const std::vector<float>& y) {
    apply(x.data(), y.data(), partial.data());
    add_scaled(partial, inflate, out.err);
  };

  if (u > 0 && numerics.sparse_sums) {
    add_product(magnitudes(a, 1, false, scale_a), magnitudes(b, 1, false, scale_b));
    const std::vector<float> flags_a = nonzero_flags(a);
    const std::vector<float> flags_b = nonzero_flags(b);
    apply(flags_a.data(), flags_b.data(), partial.data());
    scale_by_sums(partial, numerics, out.err);
    out.terms = static_cast<double>(std::ranges::max(partial));
  }
  const double factor = numerics.sparse_sums ? 0 : products_factor(numerics, terms) * u;
  if (factor > 0 || !b.err.empty()) {
    add_product(magnitudes(a, 1, true, scale_a), magnitudes(b, factor, true, scale_b));
  }
  if (!a.err.empty()) {
    const Value error_of_a{a.shape, a.err, {}};
    add_product(magnitudes(error_of_a, 1, false, scale_a), magnitudes(b, 1, false, scale_b));
  }
  for_each_part(out.err.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) out.err[i] += floor;
  });
}

/// out += bias[c] for every element i of a product, c = i / stride % channels.
void add_bias(const Value& bias, std::size_t stride, const Numerics& numerics, Value& out);

/// The part of a contraction's extent that the mutant "shrunk_k" leaves out: an eighth.
inline std::int64_t shrinkage(std::int64_t extent) { return std::max<std::int64_t>(1, extent / 8); }

/// A copy whose last `count` entries along `axis` are zero: a contraction that stops early.
Value zero_tail(const Value& x, std::size_t axis, std::int64_t count);

}  // namespace lathe::ops
