#include "model/weight_format.h"

#include <cmath>

#include "task/dtype.h"
#include "tests/model/fixtures.h"

namespace lathe {
namespace {

using testing::ElementsAre;

std::vector<float> dequantised(WeightFormat format, const std::string& blocks) {
  std::vector<float> values(blocks.size() / info(format).block_bytes * info(format).block_elements);
  dequantise(format, as_bytes(blocks), values);
  return values;
}

const std::string kHalfTwo("\x00\x40", 2);   // 2.0
const std::string kHalfHalf("\x00\x38", 2);  // 0.5

TEST(WeightFormat, EveryRowStandsAtItsNumber) {
  for (const WeightFormatInfo& row : all_weight_formats()) EXPECT_EQ(&info(row.format), &row) << row.name;
}

TEST(Dequantise, EveryHalfIsWhatTheTasksDtypeSays) {
  for (const auto& [format, dtype] :
       {std::pair(WeightFormat::kF16, DType::kF16), {WeightFormat::kBF16, DType::kBF16}}) {
    std::string all;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) all += little_endian(static_cast<std::uint16_t>(bits));
    const std::vector<float> ours = dequantised(format, all);
    std::vector<double> want(ours.size());
    info(dtype).decode(as_bytes(all).data(), want);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(ours[i])) << i;
      } else {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(ours[i]),
                  std::bit_cast<std::uint32_t>(static_cast<float>(want[i])))
            << i;
      }
    }
  }
}

TEST(Dequantise, Q8_0IsAScaleTimesSignedBytes) {
  std::string block = kHalfHalf + std::string(32, '\0');
  block[2] = '\x7f';
  block[33] = '\x80';
  const auto values = dequantised(WeightFormat::kQ8_0, block);
  EXPECT_EQ(values[0], 63.5f);
  EXPECT_EQ(values[31], -64.0f);
}

TEST(Dequantise, Q4HasItsFirstHalfInTheLowBits) {
  const std::string packed = "\x1f" + std::string(15, '\x88');
  const auto centred = dequantised(WeightFormat::kQ4_0, kHalfTwo + packed);
  EXPECT_EQ(centred[0], 14.0f);
  EXPECT_EQ(centred[1], 0.0f);
  EXPECT_EQ(centred[16], -14.0f);
  const auto shifted = dequantised(WeightFormat::kQ4_1, kHalfTwo + kHalfHalf + packed);
  EXPECT_EQ(shifted[0], 30.5f);
  EXPECT_EQ(shifted[16], 2.5f);
}

TEST(Dequantise, Q5HasTheFifthBitsApart) {
  const std::string high("\x01\x00\x00\x80", 4);
  const std::string packed(16, '\0');
  const auto centred = dequantised(WeightFormat::kQ5_0, kHalfTwo + high + packed);
  EXPECT_EQ(centred[0], 0.0f);
  EXPECT_EQ(centred[1], -32.0f);
  EXPECT_EQ(centred[31], 0.0f);
  const auto shifted = dequantised(WeightFormat::kQ5_1, kHalfTwo + kHalfHalf + high + packed);
  EXPECT_EQ(shifted[0], 32.5f);
  EXPECT_EQ(shifted[1], 0.5f);
}

TEST(Dequantise, Q4_KHasAScaleAndAnOffsetForEachPartOf32) {
  std::string block = kHalfTwo + kHalfHalf + std::string(12, '\0') + std::string(128, '\x21');
  block[4] = 3;           // part 0: scale 3, in the low six bits
  block[8] = 4;           // part 0: offset 4
  block[4 + 1] = '\x40';  // part 5's scale: upper bits 01
  block[4 + 9] = '\x05';  // its lower bits 5, and offset's lower bits 0
  const auto values = dequantised(WeightFormat::kQ4_K, block);
  EXPECT_EQ(values[0], 2.0f * 3 * 1 - 0.5f * 4);
  EXPECT_EQ(values[32], 0.0f);
  EXPECT_EQ(values[5 * 32], 2.0f * 21 * 2);
}

TEST(Dequantise, Q6_KHasASignedScaleForSixteen) {
  std::string block(210, '\0');
  block[192] = '\xff';  // -1 for elements 0 to 15
  block[193] = 2;
  block.replace(208, 2, kHalfTwo);
  const auto values = dequantised(WeightFormat::kQ6_K, block);
  EXPECT_EQ(values[0], 64.0f);
  EXPECT_EQ(values[16], -128.0f);
  EXPECT_EQ(values[32], 0.0f);
}

TEST(FirstNotFinite, FindsTheBlockOfABadScaleInEveryFormat) {
  struct Case {
    WeightFormat format;
    std::size_t scale;
  };
  for (const Case& test :
       {Case{WeightFormat::kF16, 0}, Case{WeightFormat::kQ8_0, 0}, Case{WeightFormat::kQ4_0, 0},
        Case{WeightFormat::kQ4_1, 2}, Case{WeightFormat::kQ5_0, 0}, Case{WeightFormat::kQ5_1, 2},
        Case{WeightFormat::kQ4_K, 2}, Case{WeightFormat::kQ5_K, 0}, Case{WeightFormat::kQ6_K, 208}}) {
    const WeightFormatInfo& layout = info(test.format);
    std::string blocks(layout.block_bytes * 3, '\0');
    EXPECT_EQ(first_not_finite(test.format, as_bytes(blocks)), std::nullopt) << layout.name;
    for (const char* bad : {"\x00\x7c", "\x00\xfc", "\x01\x7e"}) {
      blocks.replace(layout.block_bytes + test.scale, 2, bad, 2);
      EXPECT_EQ(first_not_finite(test.format, as_bytes(blocks)), layout.block_elements) << layout.name;
    }
  }
  EXPECT_EQ(first_not_finite(WeightFormat::kF32, as_bytes(bytes_of({1, NAN}))), 1u);
  EXPECT_EQ(first_not_finite(WeightFormat::kBF16, as_bytes(std::string("\x80\x7f", 2))), 0u);
}

}  // namespace
}  // namespace lathe
