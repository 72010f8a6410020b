#pragma once

#include <stdint.h>

// 8-bit floating-point storage types (OCP); arithmetic is in fp32.

namespace lathe {

/// A sign, an exponent and kMantissa bits. Without an infinity, what is too large becomes the
/// largest number.
template <int kMantissa, bool kHasInfinity>
struct Fp8 {
  uint8_t bits;

  Fp8() = default;
  /// Rounds to nearest, ties to even.
  explicit Fp8(float value) : bits(encoded(value)) {}
  Fp8& operator=(float value) { return *this = Fp8(value); }
  operator float() const {
    const uint32_t magnitude = bits & 0x7fu;
    const float least = __builtin_bit_cast(float, (128 - kBias - kMantissa) << 23);
    const float small = static_cast<float>(static_cast<int32_t>(magnitude)) * least;
    uint32_t whole = (magnitude << (23 - kMantissa)) + ((127 - kBias) << 23);
    whole = magnitude >> kMantissa == 0 ? __builtin_bit_cast(uint32_t, small) : whole;
    whole = kHasInfinity && magnitude == kAbove ? 0x7f800000u : whole;
    whole = magnitude > kAbove ? 0x7fc00000u : whole;
    return __builtin_bit_cast(float, whole | static_cast<uint32_t>(bits & 0x80u) << 24);
  }

  static constexpr uint32_t kBias = (1u << (6 - kMantissa)) - 1;
  static constexpr uint32_t kAbove = kHasInfinity ? 0x7fu >> kMantissa << kMantissa : 0x7eu;
  static constexpr uint32_t kNan = kHasInfinity ? kAbove + 2 : 0x7fu;
  /// Of fp32: the bits of the smallest normal number, and those of its exponent in this format.
  static constexpr uint32_t kSmallestNormal = (128 - kBias) << 23;
  static constexpr uint32_t kLeastNormal = (127 - kBias) << kMantissa;
  /// Beside this number, fp32's last place is the format's least.
  static float beside() { return __builtin_bit_cast(float, (151 - kBias - kMantissa) << 23); }

 private:
  static uint8_t encoded(float value) {
    const uint32_t whole = __builtin_bit_cast(uint32_t, value), magnitude = whole & 0x7fffffffu;
    constexpr int kCut = 23 - kMantissa;
    const uint32_t rounded = (magnitude + (1u << (kCut - 1)) - 1 + (magnitude >> kCut & 1)) >> kCut;
    const float raised = __builtin_bit_cast(float, magnitude) + beside();
    const uint32_t small = __builtin_bit_cast(uint32_t, raised) - __builtin_bit_cast(uint32_t, beside());
    uint32_t code = magnitude < kSmallestNormal ? small : rounded - kLeastNormal;
    code = code < kAbove ? code : kAbove;
    code = magnitude <= 0x7f800000u ? code : kNan;
    return static_cast<uint8_t>(code | (whole >> 24 & 0x80u));
  }
};

using fp8e4m3 = Fp8<3, false>;
using fp8e5m2 = Fp8<2, true>;

}  // namespace lathe
