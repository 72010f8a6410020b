#pragma once

#include <stdint.h>

#ifndef __FLT16_MANT_DIG__
#include <immintrin.h>
#endif

// 16-bit floating-point storage types; arithmetic is in fp32, where C++ would round products of two
// _Float16.

namespace lathe {

struct half {
#ifdef __FLT16_MANT_DIG__
  _Float16 value;

  explicit half(float from) : value(static_cast<_Float16>(from)) {}
  operator float() const { return static_cast<float>(value); }
#else  // g++ 11 and clang++ 14 have no _Float16
  uint16_t bits;

  explicit half(float from) : bits(_cvtss_sh(from, _MM_FROUND_TO_NEAREST_INT)) {}
  operator float() const { return _cvtsh_ss(bits); }
#endif
  half() = default;
  half& operator=(float from) { return *this = half(from); }
};

struct bfloat16 {
  uint16_t bits;

  bfloat16() = default;
  /// Rounds to nearest, ties to even.
  explicit bfloat16(float value) {
    const uint32_t whole = __builtin_bit_cast(uint32_t, value);
    const uint32_t rounded = whole + 0x7fff + (whole >> 16 & 1);
    bits = static_cast<uint16_t>((value != value ? whole | 0x400000 : rounded) >> 16);
  }
  bfloat16& operator=(float value) { return *this = bfloat16(value); }
  operator float() const { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
};

}  // namespace lathe
