#include "base/clock.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(SteadyClock, NeverGoesBackAndCountsNanoseconds) {
  const std::int64_t begin = steady_clock().now_ns();
  std::int64_t last = begin;
  while (last - begin < 2'000'000) {
    const std::int64_t now = steady_clock().now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(FakeClock, MovesOnlyWhenTold) {
  FakeClock clock;
  const Clock& seen = clock;
  EXPECT_EQ(seen.now_ns(), 0);
  clock.advance_ns(5);
  EXPECT_EQ(seen.now_ns(), 5);
}

TEST(UnixSeconds, IsAfterThisWasWritten) { EXPECT_GT(unix_seconds(), 1'700'000'000); }

}  // namespace
}  // namespace lathe
