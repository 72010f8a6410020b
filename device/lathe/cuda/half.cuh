#pragma once

#include "lathe/cuda/math.cuh"

// 16-bit floating-point storage types; arithmetic is in fp32.

namespace lathe {

struct half {
  uint16_t bits;

  half() = default;
  __device__ inline explicit half(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
  __device__ inline half& operator=(float value) { return *this = half(value); }
  __device__ inline operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};

struct bfloat16 {
  uint16_t bits;

  bfloat16() = default;
  __device__ inline explicit bfloat16(float value) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
  __device__ inline bfloat16& operator=(float value) { return *this = bfloat16(value); }
  __device__ inline operator float() const { return __uint_as_float(static_cast<uint32_t>(bits) << 16); }
};

// Packs two adjacent elements into one register, `first` at the lower address.
__device__ inline uint32_t pack_fp16(float first, float second) {
  uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
__device__ inline void unpack_fp16(uint32_t pair, float& first, float& second) {
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
      : "=f"(first), "=f"(second)
      : "r"(pair));
}
__device__ inline uint32_t pack_bf16(float first, float second) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}

}  // namespace lathe
