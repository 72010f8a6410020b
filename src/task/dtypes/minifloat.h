#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "task/dtypes/codec.h"

namespace lathe::dtypes {

/// Binary formats narrower than fp32, by their exponent and mantissa bits. Rounds a double once (through
/// fp32 it would be twice). Without infinities (the OCP "FN" formats) the top exponent holds numbers, the
/// all-ones code is NaN, and overflow saturates, as the hardware's conversions do.
template <class Stored, int kExponentBits, int kMantissaBits, bool kHasInfinity>
struct Minifloat {
  using Bits = Stored;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kMinExponent = 1 - kBias;
  static constexpr std::uint32_t kMagnitudeMask = (1u << (kExponentBits + kMantissaBits)) - 1;
  static constexpr std::uint32_t kInfinity = ((1u << kExponentBits) - 1) << kMantissaBits;
  static constexpr std::uint32_t kNan =
      kHasInfinity ? kInfinity | (1u << (kMantissaBits - 1)) : kMagnitudeMask;
  static constexpr std::uint32_t kLargest = kHasInfinity ? kInfinity - 1 : kMagnitudeMask - 1;

  static double decode(Bits stored) {
    const std::uint32_t magnitude = stored & kMagnitudeMask;
    const double sign = (stored & ~kMagnitudeMask) != 0 ? -1.0 : 1.0;
    if (kHasInfinity && magnitude == kInfinity) return sign * std::numeric_limits<double>::infinity();
    if (kHasInfinity ? magnitude > kInfinity : magnitude == kNan) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    const int exponent = static_cast<int>(magnitude >> kMantissaBits);
    const std::uint32_t mantissa = magnitude & ((1u << kMantissaBits) - 1);
    if (exponent == 0) return sign * mantissa * power_of_two(kMinExponent - kMantissaBits);
    const double significand = mantissa + static_cast<double>(1u << kMantissaBits);
    return sign * significand * power_of_two(exponent - kBias - kMantissaBits);
  }

  static Bits encode(double value) {
    const auto raw = std::bit_cast<std::uint64_t>(value);
    const std::uint32_t sign = (raw >> 63) != 0 ? kMagnitudeMask + 1 : 0;
    if (std::isnan(value)) return static_cast<Bits>(sign | kNan);
    const int unbiased = static_cast<int>((raw >> 52) & 0x7ff) - 1023;
    const std::uint32_t overflow = kHasInfinity ? kInfinity : kLargest;
    if (unbiased > kBias + 1) return static_cast<Bits>(sign | overflow);

    const int exponent = unbiased < kMinExponent ? kMinExponent : unbiased;
    const double units = std::fabs(value) * power_of_two(kMantissaBits - exponent);
    const auto rounded = static_cast<std::uint32_t>(std::nearbyint(units));
    const auto binade = static_cast<std::uint32_t>(exponent - kMinExponent) << kMantissaBits;
    const std::uint32_t magnitude = binade + rounded;  // the hidden bit and a carry both bump the exponent
    return static_cast<Bits>(sign | (magnitude > kLargest ? overflow : magnitude));
  }

 private:
  static double power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  }
};

/// A DTypeInfo's decode and encode of a Minifloat.
template <class Format>
void decode_minifloat(const std::byte* from, std::span<double> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    typename Format::Bits stored;
    std::memcpy(&stored, from + i * sizeof(stored), sizeof(stored));
    to[i] = Format::decode(stored);
  }
}
template <class Format>
void encode_minifloat(std::span<const double> from, std::byte* to) {
  encode_as<typename Format::Bits>(from, to, Format::encode);
}

}  // namespace lathe::dtypes
