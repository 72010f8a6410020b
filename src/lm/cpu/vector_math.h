#pragma once

#include <bit>
#include <cstdint>

namespace lathe::lm {

/// exp(x) for x <= 0 with a relative error below 2e-7, in operations that compilers vectorise.
/// Results below 1e-38 are some number below 1e-37.
inline float exp_of_negative(float x) {
  x = x < -87.0F ? -87.0F : x;
  constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = x * 1.44269504F + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::int32_t exponent =
      (std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRounder)) + 127;
  return p * std::bit_cast<float>(exponent << 23);
}

/// x / (1 + exp(-x)).
inline float silu(float x) {
  const float e = exp_of_negative(x < 0 ? x : -x);
  return x * (x < 0 ? e : 1.0F) / (1.0F + e);
}

}  // namespace lathe::lm
