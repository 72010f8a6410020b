#pragma once

#include "lathe/cuda/half.cuh"

// 8-bit floating-point storage types (OCP); arithmetic is in fp32.

namespace lathe {

/// A sign, an exponent and kMantissa bits. Without an infinity, what is too large becomes the
/// largest number.
template <int kMantissa, bool kHasInfinity>
struct Fp8 {
  uint8_t bits;

  Fp8() = default;
  /// Rounds to nearest, ties to even.
  __device__ inline explicit Fp8(float value) : bits(encoded(value)) {}
  __device__ inline Fp8& operator=(float value) { return *this = Fp8(value); }
  /// The bits of a half are those of an e5m2, then zeros; of an e4m3 divided by 2^8, its exponent
  /// and mantissa after the second bit.
  __device__ inline operator float() const {
    half wide;
    if (kHasInfinity) {
      wide.bits = static_cast<uint16_t>(bits << 8);
      return wide;
    }
    wide.bits = static_cast<uint16_t>((bits & 0x7f) << 7 | (bits & 0x80) << 8);
    return (bits & 0x7f) == 0x7f ? __uint_as_float(0x7fc00000u) : static_cast<float>(wide) * 256.0f;
  }

 private:
  __device__ static inline uint8_t encoded(float value) {
#if __CUDA_ARCH__ >= 890
    if (!kHasInfinity) {
      uint16_t pair;
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
      return static_cast<uint8_t>(pair);
    }
#endif
    constexpr int kCut = 23 - kMantissa;
    constexpr uint32_t kBias = (1u << (6 - kMantissa)) - 1;
    constexpr uint32_t kAbove = kHasInfinity ? 0x7fu >> kMantissa << kMantissa : 0x7eu;
    const uint32_t whole = __float_as_uint(value), magnitude = whole & 0x7fffffffu;
    const uint32_t rounded = (magnitude + (1u << (kCut - 1)) - 1 + (magnitude >> kCut & 1)) >> kCut;
    // Beside a number of this size, fp32's last place is the format's least.
    constexpr uint32_t kBeside = (151 - kBias - kMantissa) << 23;
    const uint32_t small = __float_as_uint(__uint_as_float(magnitude) + __uint_as_float(kBeside)) - kBeside;
    uint32_t code = magnitude < (128 - kBias) << 23 ? small : rounded - ((127 - kBias) << kMantissa);
    code = code < kAbove ? code : kAbove;
    code = magnitude <= 0x7f800000u ? code : kHasInfinity ? kAbove + 2 : 0x7fu;
    return static_cast<uint8_t>(code | (whole >> 24 & 0x80u));
  }
};

using fp8e4m3 = Fp8<3, false>;
using fp8e5m2 = Fp8<2, true>;

}  // namespace lathe
