#include "model/weight_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

namespace lathe {
namespace {

constexpr std::size_t kSuperBlock = 256;  // elements of a K format's block

constexpr std::array<WeightFormatInfo, 11> kFormats = {{
    {WeightFormat::kF32, "F32", 1, 4, 0},
    {WeightFormat::kF16, "F16", 1, 2, 1},
    {WeightFormat::kBF16, "BF16", 1, 2, 30},
    {WeightFormat::kQ8_0, "Q8_0", 32, 34, 8},
    {WeightFormat::kQ5_0, "Q5_0", 32, 22, 6},
    {WeightFormat::kQ5_1, "Q5_1", 32, 24, 7},
    {WeightFormat::kQ4_0, "Q4_0", 32, 18, 2},
    {WeightFormat::kQ4_1, "Q4_1", 32, 20, 3},
    {WeightFormat::kQ4_K, "Q4_K", kSuperBlock, 144, 12},
    {WeightFormat::kQ5_K, "Q5_K", kSuperBlock, 176, 13},
    {WeightFormat::kQ6_K, "Q6_K", kSuperBlock, 210, 14},
}};

std::uint8_t byte_at(const std::byte* from) { return std::to_integer<std::uint8_t>(*from); }
std::int8_t signed_at(const std::byte* from) { return static_cast<std::int8_t>(byte_at(from)); }

std::uint16_t u16_at(const std::byte* from) {
  std::uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::uint32_t u32_at(const std::byte* from) {
  std::uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float f32_at(const std::byte* from) { return std::bit_cast<float>(u32_at(from)); }
float bf16_at(const std::byte* from) { return std::bit_cast<float>(std::uint32_t{u16_at(from)} << 16); }

float f16_at(const std::byte* from) {
  const std::uint32_t half = u16_at(from);
  const std::uint32_t sign = (half & 0x8000) << 16;
  const std::uint32_t exponent = half & 0x7c00;
  const std::uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {  // by way of an integer, so that a thread which flushes denormals gets it right too
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t bias = exponent == 0x7c00 ? 0x7f800000 : (exponent << 13) + (112u << 23);
  return std::bit_cast<float>(sign | bias | mantissa << 13);
}

/// Sixteen bytes of two 4-bit numbers: low halves are elements 0 to 15, high halves 16 to 31.
int nibble(const std::byte* packed, int i) {
  return i < 16 ? byte_at(packed + i) & 15 : byte_at(packed + i - 16) >> 4;
}

void q8_0(const std::byte* block, float* to) {
  const float scale = f16_at(block);
  for (int i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(signed_at(block + 2 + i));
}

void q4_0(const std::byte* block, float* to) {
  const float scale = f16_at(block);
  for (int i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(nibble(block + 2, i) - 8);
}

void q4_1(const std::byte* block, float* to) {
  const float scale = f16_at(block);
  const float least = f16_at(block + 2);
  for (int i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(nibble(block + 4, i)) + least;
}

void q5_0(const std::byte* block, float* to) {
  const float scale = f16_at(block);
  const std::uint32_t high = u32_at(block + 2);
  for (int i = 0; i < 32; ++i)
    to[i] = scale * static_cast<float>((nibble(block + 6, i) | static_cast<int>(high >> i & 1) << 4) - 16);
}

void q5_1(const std::byte* block, float* to) {
  const float scale = f16_at(block);
  const float least = f16_at(block + 2);
  const std::uint32_t high = u32_at(block + 4);
  for (int i = 0; i < 32; ++i)
    to[i] = scale * static_cast<float>(nibble(block + 8, i) | static_cast<int>(high >> i & 1) << 4) + least;
}

/// Scale and least value of part `part` (of eight), 6 bits each, in twelve bytes: the first four
/// parts' in the low bits of bytes 0-3 and 4-7; the others' in the halves of bytes 8-11, with their
/// upper two bits above the first's.
struct PartScales {
  float scale;
  float least;
};
PartScales part_scales(const std::byte* packed, int part) {
  int scale;
  int least;
  if (part < 4) {
    scale = byte_at(packed + part) & 63;
    least = byte_at(packed + part + 4) & 63;
  } else {
    const int both = byte_at(packed + part + 4);
    scale = (both & 15) | (byte_at(packed + part - 4) >> 6) << 4;
    least = both >> 4 | (byte_at(packed + part) >> 6) << 4;
  }
  return {static_cast<float>(scale), static_cast<float>(least)};
}

/// Eight parts of 32: pairs of them share 32 bytes, the even one in the low halves.
void q4_k(const std::byte* block, float* to) {
  const float scale = f16_at(block);
  const float least = f16_at(block + 2);
  for (int part = 0; part < 8; ++part) {
    const PartScales scales = part_scales(block + 4, part);
    const float step = scale * scales.scale;
    const float offset = least * scales.least;
    const std::byte* packed = block + 16 + part / 2 * 32;
    const int shift = part % 2 * 4;
    for (int i = 0; i < 32; ++i)
      to[part * 32 + i] = step * static_cast<float>(byte_at(packed + i) >> shift & 15) - offset;
  }
}

/// As q4_k; bit `part` of the byte for i in `high` is the fifth.
void q5_k(const std::byte* block, float* to) {
  const float scale = f16_at(block);
  const float least = f16_at(block + 2);
  const std::byte* high = block + 16;
  for (int part = 0; part < 8; ++part) {
    const PartScales scales = part_scales(block + 4, part);
    const float step = scale * scales.scale;
    const float offset = least * scales.least;
    const std::byte* packed = block + 48 + part / 2 * 32;
    const int shift = part % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      const int value = (byte_at(packed + i) >> shift & 15) | (byte_at(high + i) >> part & 1) << 4;
      to[part * 32 + i] = step * static_cast<float>(value) - offset;
    }
  }
}

/// Two halves of 128, each of four parts of 32: low four bits in 64 bytes (parts 0 and 1 in the low
/// halves of bytes 0-31 and 32-63, parts 2 and 3 in the high ones), upper two bits in 32 bytes; one
/// scale for 16 elements.
void q6_k(const std::byte* block, float* to) {
  const float scale = f16_at(block + 208);
  const std::byte* scales = block + 192;
  for (int part = 0; part < 8; ++part) {
    const int half = part / 4;
    const int quarter = part % 4;
    const std::byte* low = block + half * 64 + quarter % 2 * 32;
    const std::byte* high = block + 128 + half * 32;
    for (int i = 0; i < 32; ++i) {
      const int value = (byte_at(low + i) >> quarter / 2 * 4 & 15) | (byte_at(high + i) >> quarter * 2 & 3)
                                                                         << 4;
      const float step = scale * static_cast<float>(signed_at(scales + part * 2 + i / 16));
      to[part * 32 + i] = step * static_cast<float>(value - 32);
    }
  }
}

/// Calls each(block, first element) for every block.
template <class Each>
void for_each_block(WeightFormat format, std::span<const std::byte> from, Each each) {
  const WeightFormatInfo& layout = info(format);
  const std::size_t blocks = from.size() / layout.block_bytes;
  for (std::size_t i = 0; i < blocks; ++i)
    each(from.data() + i * layout.block_bytes, i * layout.block_elements);
}

bool finite_f16(const std::byte* from) { return (u16_at(from) & 0x7c00) != 0x7c00; }
bool finite_bf16(const std::byte* from) { return (u16_at(from) & 0x7f80) != 0x7f80; }
bool finite_f32(const std::byte* from) { return (u32_at(from) & 0x7f800000) != 0x7f800000; }

bool finite_scales(WeightFormat format, const std::byte* block) {
  switch (format) {
    case WeightFormat::kF32:
      return finite_f32(block);
    case WeightFormat::kBF16:
      return finite_bf16(block);
    case WeightFormat::kF16:
    case WeightFormat::kQ8_0:
    case WeightFormat::kQ5_0:
    case WeightFormat::kQ4_0:
      return finite_f16(block);
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ4_1:
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
      return finite_f16(block) && finite_f16(block + 2);
    case WeightFormat::kQ6_K:
      return finite_f16(block + 208);
  }
  return false;
}

}  // namespace

const WeightFormatInfo& info(WeightFormat format) { return kFormats[static_cast<std::size_t>(format)]; }
std::span<const WeightFormatInfo> all_weight_formats() { return kFormats; }

void dequantise(WeightFormat format, std::span<const std::byte> from, std::span<float> to) {
  assert(from.size() / info(format).block_bytes * info(format).block_elements == to.size());
  const auto plain = [&](float (*value_at)(const std::byte*), std::size_t bytes) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = value_at(from.data() + i * bytes);
  };
  const auto blocks = [&](void (*expand)(const std::byte*, float*)) {
    for_each_block(format, from,
                   [&](const std::byte* block, std::size_t first) { expand(block, to.data() + first); });
  };
  switch (format) {
    case WeightFormat::kF32:
      return plain(f32_at, 4);
    case WeightFormat::kF16:
      return plain(f16_at, 2);
    case WeightFormat::kBF16:
      return plain(bf16_at, 2);
    case WeightFormat::kQ8_0:
      return blocks(q8_0);
    case WeightFormat::kQ5_0:
      return blocks(q5_0);
    case WeightFormat::kQ5_1:
      return blocks(q5_1);
    case WeightFormat::kQ4_0:
      return blocks(q4_0);
    case WeightFormat::kQ4_1:
      return blocks(q4_1);
    case WeightFormat::kQ4_K:
      return blocks(q4_k);
    case WeightFormat::kQ5_K:
      return blocks(q5_k);
    case WeightFormat::kQ6_K:
      return blocks(q6_k);
  }
}

std::optional<std::size_t> first_not_finite(WeightFormat format, std::span<const std::byte> from) {
  const WeightFormatInfo& layout = info(format);
  const std::size_t blocks = from.size() / layout.block_bytes;
  for (std::size_t i = 0; i < blocks; ++i)
    if (!finite_scales(format, from.data() + i * layout.block_bytes)) return i * layout.block_elements;
  return std::nullopt;
}

}  // namespace lathe
