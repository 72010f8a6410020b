#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace lathe {

/// How a file stores weights: plain numbers, or blocks of small integers with scales, laid out as
/// ggml does.
enum class WeightFormat : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ5_0,
  kQ5_1,
  kQ4_0,
  kQ4_1,
  kQ4_K,
  kQ5_K,
  kQ6_K
};

struct WeightFormatInfo {
  WeightFormat format;
  std::string_view name;       ///< "Q4_K"
  std::size_t block_elements;  ///< 1 for plain numbers; a row holds whole blocks
  std::size_t block_bytes;
  std::uint32_t ggml_type;  ///< its number in GGUF files
};

const WeightFormatInfo& info(WeightFormat format);
std::span<const WeightFormatInfo> all_weight_formats();

/// Little-endian `from` holds exactly the blocks of `to`. Every product and sum is rounded to fp32
/// once, in the order of ggml's reference, so results equal its own bit for bit. Scales that are
/// not finite pass through.
void dequantise(WeightFormat format, std::span<const std::byte> from, std::span<float> to);

/// The first element that would not be finite, or nothing. Looks at scales only: finite scales of
/// 16 bits times integers of 14 bits cannot overflow.
std::optional<std::size_t> first_not_finite(WeightFormat format, std::span<const std::byte> from);

}  // namespace lathe
