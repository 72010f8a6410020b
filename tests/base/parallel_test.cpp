#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace lathe {
namespace {

TEST(ForEachIndex, CallsEachOnce) {
  std::vector<std::atomic<int>> calls(1000);
  ASSERT_TRUE(
      for_each_index(1000, [&](int i) -> Status { return ++calls[static_cast<std::size_t>(i)], Ok{}; }).ok());
  for (const auto& count : calls) EXPECT_EQ(count, 1);
}

TEST(ForEachIndex, ReturnsAnErrorAndBeginsNothingNew) {
  std::atomic<int> begun = 0;
  const Status done = for_each_index(1'000'000, [&](int i) -> Status {
    ++begun;
    if (i == 3) return Error{ErrorCode::kInternal, "three"};
    return Ok{};
  });
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message, "three");
  EXPECT_LT(begun, 1'000'000);
}

TEST(ForEachIndex, NothingIsFine) {
  EXPECT_TRUE(for_each_index(0, [](int) -> Status { return Error{ErrorCode::kInternal, "called"}; }).ok());
}

}  // namespace
}  // namespace lathe
