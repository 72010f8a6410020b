#include "task/dtype.h"

#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace lathe {
namespace {

using Decode = void(const std::byte* from, std::span<double> to);
using Encode = void(std::span<const double> from, std::byte* to);

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

/// Binary formats narrower than fp32, by their exponent and mantissa bits. Rounds a double once
/// (through fp32 it would be twice). Without infinities (the OCP "FN" formats) the top exponent
/// holds numbers, the all-ones code is NaN, and overflow saturates, as the hardware's conversions
/// do.
template <class Bits, int kExponentBits, int kMantissaBits, bool kHasInfinity>
struct Minifloat {
  using Stored = Bits;
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

void encode_fp64(std::span<const double> from, std::byte* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
}

void encode_fp32(std::span<const double> from, std::byte* to) {
  encode_as<float>(from, to, [](double value) { return static_cast<float>(value); });
}

template <class T>
void encode_integer(std::span<const double> from, std::byte* to) {
  encode_as<T>(from, to, saturate<T>);
}

template <class Format>
void decode_small(const std::byte* from, std::span<double> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    typename Format::Stored stored;
    std::memcpy(&stored, from + i * sizeof stored, sizeof stored);
    to[i] = Format::decode(stored);
  }
}

template <class Format>
void encode_small(std::span<const double> from, std::byte* to) {
  encode_as<typename Format::Stored>(from, to, Format::encode);
}

/// A byte that is neither 0 nor 1 is neither false nor true: memory that nobody wrote is no answer.
void decode_bool(const std::byte* from, std::span<double> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::to_integer<int>(from[i]);
}

void encode_bool(std::span<const double> from, std::byte* to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = from[i] == 0 ? std::byte{0} : std::byte{1};
}

using Half = Minifloat<std::uint16_t, 5, 10, true>;
using Bfloat16 = Minifloat<std::uint16_t, 8, 7, true>;
using Fp8E4M3 = Minifloat<std::uint8_t, 4, 3, false>;
using Fp8E5M2 = Minifloat<std::uint8_t, 5, 2, true>;

constexpr DTypeInfo floating(DType dtype, std::string_view name, std::string_view c_name, std::size_t bytes,
                             double unit_roundoff, double smallest_normal, double largest, Decode* decode,
                             Encode* encode) {
  return {dtype,           name,     c_name,  bytes,  true,  unit_roundoff,
          smallest_normal, -largest, largest, decode, encode};
}

template <class T>
constexpr DTypeInfo integer(DType dtype, std::string_view name, std::string_view c_name) {
  return {dtype,
          name,
          c_name,
          sizeof(T),
          false,
          0,
          1,
          static_cast<double>(std::numeric_limits<T>::min()),
          static_cast<double>(std::numeric_limits<T>::max()),
          decode_as<T>,
          encode_integer<T>};
}

/// In DType's order.
constexpr std::array kTable{
    floating(DType::kF64, "fp64", "double", 8, 0x1p-53, 0x1p-1022, std::numeric_limits<double>::max(),
             decode_as<double>, encode_fp64),
    floating(DType::kF32, "fp32", "float", 4, 0x1p-24, 0x1p-126, std::numeric_limits<float>::max(),
             decode_as<float>, encode_fp32),
    floating(DType::kF16, "fp16", "lathe::half", 2, 0x1p-11, 0x1p-14, 65504, decode_small<Half>,
             encode_small<Half>),
    floating(DType::kBF16, "bf16", "lathe::bfloat16", 2, 0x1p-8, 0x1p-126, 0x1.fep127, decode_small<Bfloat16>,
             encode_small<Bfloat16>),
    floating(DType::kF8E4M3, "fp8e4m3", "lathe::fp8e4m3", 1, 0x1p-4, 0x1p-6, 448, decode_small<Fp8E4M3>,
             encode_small<Fp8E4M3>),
    floating(DType::kF8E5M2, "fp8e5m2", "lathe::fp8e5m2", 1, 0x1p-3, 0x1p-14, 57344, decode_small<Fp8E5M2>,
             encode_small<Fp8E5M2>),
    integer<std::int8_t>(DType::kI8, "int8", "int8_t"),
    integer<std::int32_t>(DType::kI32, "int32", "int32_t"),
    integer<std::int64_t>(DType::kI64, "int64", "int64_t"),
    DTypeInfo{DType::kBool, "bool", "uint8_t", 1, false, 0, 1, 0, 1, decode_bool, encode_bool},
    integer<std::uint8_t>(DType::kU8, "uint8", "uint8_t"),
};

}  // namespace

std::span<const DTypeInfo> all_dtypes() { return kTable; }

const DTypeInfo& info(DType dtype) {
  const DTypeInfo& entry = all_dtypes()[static_cast<std::size_t>(dtype)];
  assert(entry.dtype == dtype);
  return entry;
}

Result<DType> parse_dtype(std::string_view name, const SourcePos& where) {
  std::string known;
  for (const DTypeInfo& entry : all_dtypes()) {
    if (entry.name == name) return entry.dtype;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return invalid("unknown dtype '" + std::string(name) + "'", "the dtypes are " + known, where);
}

}  // namespace lathe
