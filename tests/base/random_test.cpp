#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

namespace lathe {
namespace {

TEST(Rng, IsXoshiro256PlusPlus) {
  Seed seed;
  const std::array<std::uint64_t, 4> state = {1, 2, 3, 4};
  std::memcpy(seed.bytes.data(), state.data(), sizeof state);
  Rng rng(seed);
  for (const std::uint64_t expected :
       {41943041ull, 58720359ull, 3588806011781223ull, 3591011842654386ull, 9228616714210784205ull,
        9973669472204895162ull, 14011001112246962877ull, 12406186145184390807ull, 15849039046786891736ull,
        10450023813501588000ull})
    EXPECT_EQ(rng.next(), expected);
}

TEST(Rng, AnAllZeroSeedStillGivesNumbers) {
  Rng rng(Seed{});
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 100; ++i) seen.insert(rng.next());
  EXPECT_GT(seen.size(), 90u);
}

TEST(Rng, BelowIsUniform) {
  Rng rng(Seed::from_number(1));
  std::vector<int> counts(7);
  constexpr int kDraws = 70'000;
  for (int i = 0; i < kDraws; ++i) ++counts[rng.below(7)];
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 1e4) * (count - 1e4) / 1e4;
  EXPECT_LT(chi_squared, 22.5);  // P = 0.001 for 6 degrees of freedom
  EXPECT_EQ(rng.below(1), 0u);
}

TEST(Rng, BetweenReachesBothEnds) {
  Rng rng(Seed::from_number(2));
  std::set<std::int64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(rng.between(-2, 2));
  EXPECT_EQ(seen, (std::set<std::int64_t>{-2, -1, 0, 1, 2}));
  EXPECT_EQ(rng.between(5, 5), 5);
}

TEST(Rng, NormalHasTheMomentsOfANormal) {
  Rng rng(Seed::from_number(3));
  constexpr int kDraws = 200'000;
  double sum = 0, squares = 0, fourths = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.normal();
    sum += x, squares += x * x, fourths += x * x * x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.01);
  EXPECT_NEAR(squares / kDraws, 1, 0.02);
  EXPECT_NEAR(fourths / kDraws, 3, 0.15);
}

TEST(Rng, UniformStaysBelowOne) {
  Rng rng(Seed::from_number(4));
  for (int i = 0; i < 10'000; ++i) {
    const double x = rng.uniform();
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
  }
}

TEST(Rng, ShuffleKeepsTheItemsAndReachesEveryOrder) {
  Rng rng(Seed::from_number(5));
  std::set<std::vector<int>> orders;
  for (int i = 0; i < 500; ++i) {
    std::vector<int> items = {1, 2, 3, 4};
    rng.shuffle(items);
    orders.insert(items);
  }
  EXPECT_EQ(orders.size(), 24u);
}

TEST(Seed, IsReproducibleFromANumberAndFreshFromTheSystem) {
  EXPECT_EQ(Seed::from_number(7).bytes, Seed::from_number(7).bytes);
  EXPECT_NE(Seed::from_number(7).bytes, Seed::from_number(8).bytes);
  EXPECT_NE(Seed::from_system().bytes, Seed::from_system().bytes);
}

TEST(Seed, DerivedStreamsDifferByLabelAndIndex) {
  const Seed root = Seed::from_number(9);
  std::set<std::array<std::uint8_t, 32>> seen = {root.bytes};
  for (const char* label : {"a", "b", "ab", ""})
    for (const std::uint64_t index : {0u, 1u, 2u}) seen.insert(root.derive(label, index).bytes);
  EXPECT_EQ(seen.size(), 13u);
  EXPECT_EQ(root.derive("a").bytes, root.derive("a", 0).bytes);
}

}  // namespace
}  // namespace lathe
