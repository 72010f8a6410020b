#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "base/large_vector.h"
#include "task/op.h"

/// Building blocks of first-order error bounds. A correct kernel may round every operation to
/// `unit_roundoff`, sum in any order (long sums in parts), contract to FMA, and use transcendental
/// functions with an error of kTranscendental roundings.
namespace lathe::ops {

/// Relative error of exp, log, erf, ... in units of u: 2 ulp.
inline constexpr double kTranscendental = 4;
/// Relative error of square roots and reciprocals in units of u: an instruction's estimate and a
/// step of Newton's.
inline constexpr double kRefined = 4;
/// Absolute error of Abramowitz and Stegun 7.1.26 in units of u, computed in that precision.
inline constexpr double kRationalErf = 12;
/// Relative error of 2^(x log2(e)) in units of u for each unit of |x|: the product's rounding, and
/// 0.224 u of log2(e) in fp32.
inline constexpr double kScaledArgument = 1.25;
/// Vectorised exp and similar functions flush denormal results to zero; those that build 2^n in two
/// steps (oneDNN) also lose half of the last normal binade.
inline constexpr double kFlush = 0x1p-125;
/// Bounds up to here allow for nothing but results that are flushed, in a chain of ops.
inline constexpr double kFlushes = 0x1p-120;

/// The longest sum that a single running accumulator may compute; longer sums must be split.
inline constexpr double kSerialTerms = 4096;

/// From so many terms on, what a share of them left out changes would be inside lambda * sqrt(n).
inline constexpr double kLongSum = 0x1p20;
/// In place of lambda for a long sum of even terms. Sixteen running sums, whose roundings cancel as
/// random ones do, come to 0.02; half of the terms left out to n u, which is 1 at 2^24.
inline constexpr double kEvenLambda = 0.25;
/// The same of shorter ones, and the most that it comes to: a running sum's roundings are 0.23
/// sqrt(n), RMS, where its terms differ. What is left out of rows that are averaged afterwards is
/// no larger beside a bound of n u.
inline constexpr double kEvenRunningLambda = 3;
inline constexpr double kEvenFactor = 512;
/// Terms are even where fewer neighbours than this share are equal: equal terms have equal
/// roundings.
inline constexpr double kEvenRepeats = 1.0 / 64;

/// The error of a sum of `terms` terms in units of u times the sum of their magnitudes. The
/// rounding of nearly equal terms is biased and a large term absorbs small ones, so a running sum's
/// error reaches `terms`; short sums may round each term several times, as split products do.
inline double sum_factor(const Numerics& numerics, double terms) {
  if (numerics.even_terms && terms > kLongSum) return kEvenLambda * std::sqrt(terms);
  return std::max(std::min(terms, kSerialTerms), numerics.lambda * std::sqrt(terms));
}

/// The same of a sum of products, whose factors may be numbers of 11 bits and what is left of them,
/// of which the product of what is left is left out: each of the three is off by up to 4 u.
inline constexpr double kSplitProduct = 12;
inline double products_factor(const Numerics& numerics, double terms) {
  return terms > 0 ? std::max(sum_factor(numerics, terms), kSplitProduct) : 0;
}

/// The largest number of what kernels compute with: fp32, or fp64 where values are.
inline double largest_held(const Numerics& numerics) {
  const bool wide = numerics.unit_roundoff < 0x1p-50;
  return wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
}

/// Whether kernels cannot hold partial sums or products of this size. Nothing is known of a result
/// then that a division, a root or another factor brings back.
inline bool may_overflow(const Numerics& numerics, double magnitude) {
  return magnitude >= largest_held(numerics) / 2;
}

/// The absolute error of a sum of `terms` terms whose magnitudes add up to `magnitude`.
inline double sum_error(const Numerics& numerics, double terms, double magnitude) {
  if (numerics.unit_roundoff == 0) return 0;
  return sum_factor(numerics, terms) * numerics.unit_roundoff * magnitude + terms * numerics.underflow;
}

/// The additional error of adding `other` to a sum of `terms` terms, because an accumulator that
/// starts from `other` rounds it with every term. 0 if there is no sum.
inline double start_error(const Numerics& numerics, double terms, double other) {
  return sum_factor(numerics, terms) * numerics.unit_roundoff * std::fabs(other);
}

/// Whether a kernel's sum is rounded where this term is added: zero stays zero only where nothing
/// on the way to it was rounded.
inline bool may_round(double term, double error) { return term != 0 || error > kFlushes; }

/// The error of one rounded operation with result y.
inline double rounding(const Numerics& numerics, double y) {
  return numerics.unit_roundoff == 0 ? 0
                                     : std::max(numerics.unit_roundoff * std::fabs(y), numerics.underflow);
}

/// The largest difference between sqrt(s) and the root of a value within `error` of s; finite even
/// for s = 0.
inline double sqrt_error(double s, double error) {
  const double root = std::sqrt(s);
  return std::max(std::sqrt(s + error) - root, root - std::sqrt(std::max(0.0, s - error)));
}

/// A sum that loses no more than one of 64 terms does: a running one in fp64 would be no more exact
/// than a kernel of fp64 may be.
class WideSum {
 public:
  explicit WideSum(double start = 0) : part_(start) {}
  void add(double term) {
    part_ += term;
    if (++count_ < 64) return;
    whole_ += part_;
    part_ = 0;
    count_ = 0;
  }
  double value() const { return static_cast<double>(whole_ + part_); }

 private:
  double part_ = 0;
  int count_ = 0;
  long double whole_ = 0;
};

/// Accumulates what the bound of a sum needs.
struct SumBound {
  double magnitude = 0;
  double propagated = 0;
  double nonzero = 0;
  double count = 0;
  double repeats = 0;  ///< of the term before
  double last = 0;

  void add(double term, double error) {
    magnitude += std::fabs(term);
    propagated += error;
    nonzero += may_round(term, error) ? 1 : 0;
    repeats += term != 0 && term == last ? 1 : 0;
    last = term;
    count += 1;
  }
  double terms(const Numerics& numerics) const { return numerics.sparse_sums ? nonzero : count; }
  /// The error in units of u times the sum of magnitudes.
  double factor(const Numerics& numerics) const {
    const double n = terms(numerics), any = sum_factor(numerics, n);
    const bool even = numerics.even_terms && repeats <= kEvenRepeats * count;
    if (!even || n > kLongSum) return any;
    return std::min({any, kEvenRunningLambda * std::sqrt(n), kEvenFactor});
  }
  double own(const Numerics& numerics) const {
    if (numerics.unit_roundoff == 0) return 0;
    if (may_overflow(numerics, magnitude)) return INFINITY;
    return factor(numerics) * numerics.unit_roundoff * (magnitude + propagated) +
           terms(numerics) * numerics.underflow;
  }
  double total(const Numerics& numerics) const { return propagated + own(numerics); }
};

/// Accumulates a product and what its bound needs: kernels may multiply neighbours first, in any
/// grouping.
struct ProductBound {
  double product = 1;
  double propagated = 0;
  double run = 1;          ///< the largest product of neighbours that ends with the last factor, or 1
  double longest_run = 1;  ///< of those that end anywhere
  double short_run = 1;    ///< the smallest such product, or 1
  double least_run = 1;    ///< of those that end anywhere
  double prefix = 1;       ///< the largest product from the first factor on
  double count = 0;

  void add(double x, double error) {
    const double reached = std::fabs(x) + error;
    propagated = propagated * reached + std::fabs(product) * error;
    product *= x;
    run = std::max(1.0, run * reached);
    longest_run = std::max(longest_run, run);
    short_run = std::min(1.0, short_run * std::fabs(x));
    least_run = std::min(least_run, short_run);
    prefix = std::max(prefix, std::fabs(product));
    count += 1;
  }
  /// The relative errors of all factors, plus the bound of a sum of as many terms. Neighbours whose
  /// product underflows lose `underflow`, which the others scale. Where they overflow though the
  /// product does not, nothing is known of it: infinity times zero is no number.
  double total(const Numerics& numerics) const {
    if (numerics.unit_roundoff == 0) return propagated;
    if (std::fabs(product) <= largest_held(numerics) && may_overflow(numerics, longest_run)) return INFINITY;
    return propagated + sum_error(numerics, count, std::fabs(product)) +
           count * numerics.underflow * (least_run < numerics.underflow ? prefix * run : 1);
  }
};

/// Whether the result has an error: from rounding, or from its inputs.
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
