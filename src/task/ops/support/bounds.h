#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "base/large_vector.h"
#include "task/op.h"

/// The pieces of first-order error bounds. An honest kernel rounds every operation to `unit_roundoff`, sums
/// in any order (a long sum in parts), contracts to FMA, and uses transcendental functions good to
/// kTranscendental roundings.
namespace lathe::ops {

/// Relative error of exp, log, erf, ... in units of u: 2 ulp.
inline constexpr double kTranscendental = 4;
/// fp32's denormal spacing: what arithmetic loses where it underflows.
inline constexpr double kTiny = 0x1p-149;
/// Vectorised exp and its like flush denormal results to zero; those that build 2^n in two steps (oneDNN)
/// lose half of the last normal binade, too.
inline constexpr double kFlush = 0x1p-125;

/// A running sum of so many terms is honest; longer sums must be split.
inline constexpr double kSerialTerms = 4096;

/// The error of a sum of `terms` terms in units of u and of their magnitudes' sum. Rounding near-equal terms
/// is biased and a large term absorbs small ones, so a running sum errs by up to `terms`; short sums may
/// round each term several times, as split products do.
inline double sum_factor(const Numerics& numerics, double terms) {
  return std::max(std::min(terms, kSerialTerms), numerics.lambda * std::sqrt(terms));
}

/// The absolute error of a sum of `terms` terms whose magnitudes add up to `magnitude`.
inline double sum_error(const Numerics& numerics, double terms, double magnitude) {
  if (numerics.unit_roundoff == 0) return 0;
  return sum_factor(numerics, terms) * numerics.unit_roundoff * magnitude + terms * kTiny;
}

/// What adding `other` to a sum of `terms` terms may cost more than one rounding: an accumulator that starts
/// from it rounds it with every term. 0 if there is no sum.
inline double start_error(const Numerics& numerics, double terms, double other) {
  return sum_factor(numerics, terms) * numerics.unit_roundoff * std::fabs(other);
}

/// The error of one rounded operation with result y.
inline double rounding(const Numerics& numerics, double y) {
  return numerics.unit_roundoff == 0 ? 0 : std::max(numerics.unit_roundoff * std::fabs(y), kTiny);
}

/// How far sqrt(s) can be from the root of a value within `error` of s: finite also where s is 0.
inline double sqrt_error(double s, double error) {
  const double root = std::sqrt(s);
  return std::max(std::sqrt(s + error) - root, root - std::sqrt(std::max(0.0, s - error)));
}

/// Sums a row's terms while it counts what the bound needs.
struct SumBound {
  double magnitude = 0;
  double propagated = 0;
  double nonzero = 0;
  double count = 0;

  void add(double term, double error) {
    magnitude += std::fabs(term);
    propagated += error;
    nonzero += term != 0 ? 1 : 0;
    count += 1;
  }
  double terms(const Numerics& numerics) const { return numerics.sparse_sums ? nonzero : count; }
  double own(const Numerics& numerics) const { return sum_error(numerics, terms(numerics), magnitude); }
  double total(const Numerics& numerics) const { return propagated + own(numerics); }
};

/// Allocates `err` if an error can arise: from arithmetic, or from inputs that have some.
inline bool needs_error(std::span<const Value* const> in, const Numerics& numerics) {
  return numerics.unit_roundoff > 0 ||
         std::ranges::any_of(in, [](const Value* value) { return value != nullptr && !value->err.empty(); });
}

inline void prepare(const Shape& shape, bool with_error, Value& out) {
  out.shape = shape;
  const auto count = static_cast<std::size_t>(element_count(shape));
  fill_zeros(out.data, count);
  fill_zeros(out.err, with_error ? count : 0);
}

}  // namespace lathe::ops
