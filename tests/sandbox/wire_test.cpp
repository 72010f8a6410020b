#include "sandbox/wire.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Wire, ReadsWhatWasWritten) {
  const std::string bytes = WireWriter().put<std::int32_t>(-5).text("two").put(2.5).text("").take();
  WireReader reader(bytes);
  EXPECT_EQ(reader.get<std::int32_t>(), -5);
  EXPECT_EQ(reader.text(), "two");
  EXPECT_EQ(reader.get<double>(), 2.5);
  EXPECT_EQ(reader.text(), "");
  EXPECT_TRUE(reader.finished());
}

TEST(Wire, EveryTruncationIsNoticedAndReadsZeroFromThere) {
  const std::string bytes = WireWriter().put<std::int64_t>(7).text("name").take();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    WireReader reader(std::string_view(bytes).substr(0, size));
    reader.get<std::int64_t>();
    reader.text();
    EXPECT_FALSE(reader.ok()) << size;
    EXPECT_EQ(reader.get<std::uint8_t>(), 0);
  }
}

TEST(Wire, AFlagIsZeroOrOne) {
  WireReader good(std::string_view("\0\1", 2));
  EXPECT_FALSE(good.flag());
  EXPECT_TRUE(good.flag());
  EXPECT_TRUE(good.finished());
  WireReader bad("\2");
  EXPECT_FALSE(bad.flag());
  EXPECT_FALSE(bad.ok());
}

TEST(Wire, TrailingBytesAreNotFinished) {
  WireReader reader("ab");
  reader.get<char>();
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(reader.finished());
}

TEST(Wire, ALieAboutALengthCostsNoMemory) {
  const std::string bytes = WireWriter().put<std::uint32_t>(0xffffffff).take();
  EXPECT_EQ(WireReader(bytes).text(), "");
  EXPECT_EQ(WireReader(bytes).count(8), 0u);
  const std::string three =
      WireWriter().put<std::uint32_t>(3).put<std::uint16_t>(0).put<std::uint8_t>(0).take();
  WireReader fits(three), too_many(three);
  EXPECT_EQ(fits.count(1), 3u);
  EXPECT_EQ(too_many.count(2), 0u);
  EXPECT_FALSE(too_many.ok());
}

}  // namespace
}  // namespace lathe
