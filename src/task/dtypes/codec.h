#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>

namespace lathe::dtypes {

/// decode and encode of a format that C++ has as type T.
template <class T>
void decode_as(const std::byte* from, std::span<double> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    T stored;
    std::memcpy(&stored, from + i * sizeof(T), sizeof(T));
    to[i] = static_cast<double>(stored);
  }
}

/// `round` maps a double to T.
template <class T, class Round>
void encode_as(std::span<const double> from, std::byte* to, Round round) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const T stored = round(from[i]);
    std::memcpy(to + i * sizeof(T), &stored, sizeof(T));
  }
}

/// Nearest integer, ties to even; saturates; NaN becomes 0, for integers have none.
template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(value);
  if (rounded <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (rounded >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(rounded);
}

}  // namespace lathe::dtypes
