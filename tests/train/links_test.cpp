#include "train/links.h"

#include <ATen/ATen.h>

#include <thread>

#include "tests/train/linked.h"

namespace lathe::train {
namespace {

TEST(Links, SumsInEveryProcess) {
  constexpr int kSize = 3;
  const std::vector<Links> links = linked(kSize);
  std::vector<std::vector<at::Tensor>> sums(kSize);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank)
    threads.emplace_back([&, rank] {
      const auto number = static_cast<std::size_t>(rank);
      sums[number] = {at::arange(700'001, at::kFloat) * (rank + 1), at::full({2, 3}, 0.5 * rank, at::kDouble),
                      at::full({1}, std::int64_t{1} << 61, at::kLong), at::empty({0}, at::kFloat)};
      LinkReducer reducer(links[number]);
      EXPECT_EQ(reducer.rank(), rank);
      EXPECT_EQ(reducer.size(), kSize);
      for (int again = 0; again < 2; ++again) EXPECT_TRUE(reducer.sum(sums[number]).ok());
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& sum : sums) {
    EXPECT_TRUE(at::equal(sum[0], at::arange(700'001, at::kFloat) * 18));
    EXPECT_TRUE(at::equal(sum[1], at::full({2, 3}, 4.5, at::kDouble)));
    EXPECT_TRUE(at::equal(sum[2], at::full({1}, std::int64_t{1} << 61, at::kLong) * 9));
  }
}

TEST(Links, SpreadWhatTheFirstHas) {
  const std::vector<Links> links = linked(3);
  for (int rank = 0; rank < 3; ++rank) {
    std::array<std::byte, 2> bytes{std::byte(rank + 7), std::byte(rank)};
    ASSERT_TRUE(links[static_cast<std::size_t>(rank)].spread(bytes).ok());
    EXPECT_EQ(bytes[0], std::byte(7));
  }
}

TEST(Links, NobodyWaitsForAProcessThatIsGone) {
  for (const std::size_t gone : {0, 2}) {
    std::vector<Links> links = linked(3);
    const std::size_t left = gone == 0 ? 1 : 0;
    EXPECT_FALSE(links[left].broken());
    std::thread leaves([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      links[gone] = Links();
    });
    std::thread other([&] {
      std::array<at::Tensor, 1> numbers{at::ones({1'000'000})};
      (void)LinkReducer(links[gone == 0 ? 2 : 1]).sum(numbers);
      links[gone == 0 ? 2 : 1] = Links();
    });
    std::array<at::Tensor, 1> numbers{at::ones({1'000'000})};
    const Status summed = LinkReducer(links[left]).sum(numbers);
    ASSERT_FALSE(summed.ok());
    EXPECT_EQ(summed.error().code, ErrorCode::kUnavailable);
    leaves.join();
    EXPECT_TRUE(links[left].broken());
    links[left] = Links();
    other.join();
  }
}

}  // namespace
}  // namespace lathe::train
