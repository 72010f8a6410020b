#include "base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(ForEachIndex, AnExceptionOfAnyThreadArrivesAtTheCaller) {
  const auto call = [](int thrower) {
    return for_each_index(64, 4, [&](int i) -> Status {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (i == thrower) throw std::bad_alloc();
      return Ok{};
    });
  };
  for (const int thrower : {0, 1, 2, 3, 63}) EXPECT_THROW((void)call(thrower), std::bad_alloc);
}

TEST(ForEachIndex, NothingIsFine) {
  EXPECT_TRUE(for_each_index(0, [](int) -> Status { return Error{ErrorCode::kInternal, "called"}; }).ok());
}

TEST(ForEachJob, LittleWorkIsDoneInTurnOnThisThread) {
  std::vector<std::int64_t> order;
  for_each_job(5, 1000, [&](std::int64_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(ForEachJob, MuchWorkIsDoneOnceEach) {
  std::vector<std::atomic<int>> calls(100);
  for_each_job(100, 1e9, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
  for (const auto& count : calls) EXPECT_EQ(count, 1);
}

TEST(ForEachPart, PartsMakeUpTheWhole) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{7}, std::size_t{5'000'003}}) {
    std::vector<unsigned char> visits(count);
    for_each_part(count, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) ++visits[i];
    });
    EXPECT_EQ(std::ranges::count(visits, 1), static_cast<std::ptrdiff_t>(count));
  }
}

}  // namespace
}  // namespace lathe
