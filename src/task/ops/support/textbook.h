#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "task/ops/support/rowwise.h"

/// What fp32 makes of formulas that are right on paper, for Numerics::textbook.
namespace lathe::ops {

/// The exponential with fp32's range: infinite from 88.7 on, zero below -104.
inline double textbook_exp(double x) {
  constexpr double kLargest = std::numeric_limits<float>::max(),
                   kSmallest = std::numeric_limits<float>::denorm_min();
  const double y = std::exp(x);
  return y > kLargest ? std::numeric_limits<double>::infinity() : y < kSmallest / 2 ? 0 : y;
}
inline double textbook_sigmoid(double x) { return textbook_exp(x) / (1 + textbook_exp(x)); }
inline double textbook_tanh(double x) { return (textbook_exp(2 * x) - 1) / (textbook_exp(2 * x) + 1); }
inline double textbook_softplus(double x) { return std::log(1 + textbook_exp(x)); }

/// The variance as E[x^2] - E[x]^2, from running sums in fp32.
inline Moments textbook_moments(std::span<const double> x) {
  float sum = 0, squares = 0;
  for (const double value : x) {
    const auto rounded = static_cast<float>(value);
    sum += rounded;
    squares += rounded * rounded;
  }
  const float mean = sum / static_cast<float>(x.size());
  return {mean, squares / static_cast<float>(x.size()) - mean * mean, 0, 0};
}

}  // namespace lathe::ops
