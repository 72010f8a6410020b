#include "base/large_vector.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lathe {
namespace {

TEST(LargeVector, HoldsZerosWhateverItHeld) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1000}, std::size_t{3} << 20}) {
    std::vector<double> vector(2000, 7);
    fill_zeros(vector, count);
    EXPECT_EQ(vector.size(), count);
    EXPECT_EQ(std::ranges::count(vector, 0.0), static_cast<std::ptrdiff_t>(count));
    EXPECT_EQ(zero_vector<float>(count), std::vector<float>(count));
  }
}

TEST(LargeVector, KeepsMemoryThatSuffices) {
  std::vector<double> vector(2000, 7);
  const double* const before = vector.data();
  fill_zeros(vector, 1500);
  EXPECT_EQ(vector.data(), before);
}

}  // namespace
}  // namespace lathe
