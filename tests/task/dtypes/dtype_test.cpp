#include "task/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"

namespace lathe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::byte> encode(DType dtype, double value) {
  std::vector<std::byte> bytes(info(dtype).bytes);
  info(dtype).encode({&value, 1}, bytes.data());
  return bytes;
}

double decode(DType dtype, const std::vector<std::byte>& bytes) {
  double value = 0;
  info(dtype).decode(bytes.data(), {&value, 1});
  return value;
}

double round_trip(DType dtype, double value) { return decode(dtype, encode(dtype, value)); }

std::vector<std::byte> code(DType dtype, std::uint32_t bits) {
  std::vector<std::byte> bytes(info(dtype).bytes);
  std::memcpy(bytes.data(), &bits, bytes.size());
  return bytes;
}

TEST(DType, NamesParseBack) {
  for (const DTypeInfo& entry : all_dtypes()) {
    const Result<DType> parsed = parse_dtype(entry.name);
    ASSERT_TRUE(parsed.ok()) << entry.name;
    EXPECT_EQ(*parsed, entry.dtype);
    EXPECT_EQ(&info(entry.dtype), &entry);
  }
}

TEST(DType, UnknownNameListsTheKnownOnes) {
  const Result<DType> parsed = parse_dtype("float", {"t.toml", 3, 4});
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.error().hint.find("fp32"), std::string::npos);
  EXPECT_EQ(parsed.error().where.line, 3);
}

class SmallFormat : public testing::TestWithParam<DType> {
 protected:
  std::uint32_t codes() const { return 1u << (8 * info(GetParam()).bytes); }
};

TEST_P(SmallFormat, EveryCodeSurvivesARoundTrip) {
  for (std::uint32_t bits = 0; bits < codes(); ++bits) {
    const auto bytes = code(GetParam(), bits);
    const double value = decode(GetParam(), bytes);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(round_trip(GetParam(), value)));
    } else {
      ASSERT_EQ(encode(GetParam(), value), bytes) << bits;
    }
  }
}

/// Between neighbours the nearer one is chosen, and halfway the one with an even code.
TEST_P(SmallFormat, RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits + 1 < codes() / 2; ++bits) {
    const double low = decode(GetParam(), code(GetParam(), bits));
    const double high = decode(GetParam(), code(GetParam(), bits + 1));
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const double middle = 0.5 * (low + high);
    ASSERT_EQ(round_trip(GetParam(), std::nextafter(middle, low)), low) << bits;
    ASSERT_EQ(round_trip(GetParam(), std::nextafter(middle, high)), high) << bits;
    ASSERT_EQ(round_trip(GetParam(), middle), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(round_trip(GetParam(), -middle), bits % 2 == 0 ? -low : -high) << bits;
  }
}

TEST_P(SmallFormat, StatesItsOwnLimits) {
  const DTypeInfo& format = info(GetParam());
  EXPECT_EQ(round_trip(GetParam(), format.largest), format.largest);
  EXPECT_EQ(round_trip(GetParam(), format.smallest_normal), format.smallest_normal);
  const double next = round_trip(GetParam(), 1 + 1.001 * format.unit_roundoff);
  EXPECT_EQ(next, 1 + 2 * format.unit_roundoff);
  EXPECT_TRUE(std::isnan(round_trip(GetParam(), kNan)));
}

INSTANTIATE_TEST_SUITE_P(DType, SmallFormat,
                         testing::Values(DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2));

TEST(DType, KnownCodes) {
  EXPECT_EQ(encode(DType::kF16, 1.0), code(DType::kF16, 0x3c00));
  EXPECT_EQ(encode(DType::kF16, -2.0), code(DType::kF16, 0xc000));
  EXPECT_EQ(encode(DType::kBF16, 1.0), code(DType::kBF16, 0x3f80));
  EXPECT_EQ(encode(DType::kF8E4M3, 1.0), code(DType::kF8E4M3, 0x38));
  EXPECT_EQ(encode(DType::kF8E4M3, 448.0), code(DType::kF8E4M3, 0x7e));
  EXPECT_EQ(encode(DType::kF8E5M2, 1.0), code(DType::kF8E5M2, 0x3c));
  EXPECT_EQ(encode(DType::kF8E5M2, -57344.0), code(DType::kF8E5M2, 0xfb));
}

TEST(DType, OverflowIsInfiniteWhereTheFormatHasInfinity) {
  EXPECT_EQ(round_trip(DType::kF32, 1e39), kInfinity);
  EXPECT_EQ(round_trip(DType::kF16, 65519), 65504);
  EXPECT_EQ(round_trip(DType::kF16, 65520), kInfinity);
  EXPECT_EQ(round_trip(DType::kBF16, -1e39), -kInfinity);
  EXPECT_EQ(round_trip(DType::kF8E4M3, 1e9), 448);
  EXPECT_EQ(round_trip(DType::kF8E4M3, -kInfinity), -448);
  EXPECT_EQ(round_trip(DType::kF8E5M2, 61439), 57344);
  EXPECT_EQ(round_trip(DType::kF8E5M2, 61440), kInfinity);
}

TEST(DType, RoundsOnceAndNotThroughFp32) {
  const double just_above_half = 1 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(round_trip(DType::kF16, just_above_half), 1 + 0x1p-10);
}

TEST(DType, WideFormatsMatchTheMachine) {
  Rng rng(Seed::from_number(1));
  for (int i = 0; i < 1000; ++i) {
    const double value = std::ldexp(rng.normal(), static_cast<int>(rng.between(-150, 120)));
    EXPECT_EQ(round_trip(DType::kF32, value), static_cast<double>(static_cast<float>(value)));
    EXPECT_EQ(round_trip(DType::kF64, value), value);
  }
}

TEST(DType, IntegersRoundToEvenAndSaturate) {
  EXPECT_EQ(round_trip(DType::kI8, 2.5), 2);
  EXPECT_EQ(round_trip(DType::kI8, 3.5), 4);
  EXPECT_EQ(round_trip(DType::kI8, 300), 127);
  EXPECT_EQ(round_trip(DType::kI8, -300), -128);
  EXPECT_EQ(round_trip(DType::kI8, kNan), 0);
  EXPECT_EQ(round_trip(DType::kU8, 254.5), 254);
  EXPECT_EQ(round_trip(DType::kU8, 300), 255);
  EXPECT_EQ(round_trip(DType::kU8, -3), 0);
  EXPECT_EQ(round_trip(DType::kI32, 1e12), 2147483647);
  EXPECT_EQ(round_trip(DType::kI32, -kInfinity), -2147483648.0);
  EXPECT_EQ(round_trip(DType::kI64, 1e30), 0x1p63);
  EXPECT_EQ(round_trip(DType::kI64, -0x1p52 - 1), -0x1p52 - 1);
}

TEST(DType, BooleansAreZeroOrOne) {
  EXPECT_EQ(round_trip(DType::kBool, 0), 0);
  EXPECT_EQ(round_trip(DType::kBool, -7), 1);
  EXPECT_EQ(decode(DType::kBool, {std::byte{200}}), 200) << "neither false nor true";
}

}  // namespace
}  // namespace lathe
