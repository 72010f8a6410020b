#include "record/json_integer.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lathe {
namespace {

TEST(JsonInteger, TakesWhatItsTypeHolds) {
  EXPECT_EQ(json_integer<int>(-7), -7);
  EXPECT_EQ(json_integer<std::uint8_t>(255), 255);
  EXPECT_EQ(json_integer<std::uint64_t>(UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(json_integer<std::int64_t>(INT64_MIN), INT64_MIN);
  EXPECT_EQ(json_integers<int>(nlohmann::json::parse("[1,-2]")), (std::vector{1, -2}));
}

TEST(JsonInteger, RefusesAllElse) {
  for (const char* text : {"4.4e45", "1.0", "2147483648", "-2147483649", "18446744073709551615", "true",
                           "null", "\"1\"", "[1]", "{}"})
    EXPECT_THROW(json_integer<int>(nlohmann::json::parse(text)), nlohmann::json::exception) << text;
  EXPECT_THROW(json_integer<std::uint8_t>(256), nlohmann::json::exception);
  EXPECT_THROW(json_integer<std::uint64_t>(-1), nlohmann::json::exception);
  for (const char* text : {"1", "null", "[1,2.5]", "{\"a\":1}"})
    EXPECT_THROW(json_integers<int>(nlohmann::json::parse(text)), nlohmann::json::exception) << text;
}

}  // namespace
}  // namespace lathe
