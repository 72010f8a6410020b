#pragma once

#include "lathe/cpu/reduce.h"

namespace lathe {

/// Of n neighbours; long sums in parts.
inline float window_mean(const float* x, int64_t n) {
  constexpr int64_t kPart = 1024 * kLanes;
  float total = 0;
  if (n < kLanes) {
    for (int64_t i = 0; i < n; ++i) total += x[i];
    return total / static_cast<float>(n);
  }
  for (int64_t part = 0; part < n; part += kPart) {
    f32v sum(0.0f);
    for (int64_t i = part; i < min(part + kPart, n); i += kLanes) sum = sum + load(x + i, first_lanes(n - i));
    total += reduce_add(sum);
  }
  return total / static_cast<float>(n);
}
inline float window_max(const float* x, int64_t n) {
  float most = x[0];
  for (int64_t i = 1; i < n; ++i) most = max(most, x[i]);
  return most;
}

/// Of n rows that lie `apart`, lane by lane.
inline f32v window_mean(const float* x, int64_t n, int64_t apart, maskv lanes) {
  constexpr int64_t kPart = 1024;
  f32v total(0.0f);
  for (int64_t part = 0; part < n; part += kPart) {
    f32v sum(0.0f);
    for (int64_t i = part; i < min(part + kPart, n); ++i) sum = sum + load(x + i * apart, lanes);
    total = total + sum;
  }
  return total / f32v(static_cast<float>(n));
}
inline f32v window_max(const float* x, int64_t n, int64_t apart, maskv lanes) {
  f32v most = load(x, lanes);
  for (int64_t i = 1; i < n; ++i) most = max(most, load(x + i * apart, lanes));
  return most;
}

}  // namespace lathe
