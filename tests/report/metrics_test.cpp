#include "report/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/random.h"

namespace lathe {
namespace {

/// Calls `visit` with every subset of {0..n-1} that has k members.
template <class Visit>
int for_each_subset(int n, int k, Visit visit) {
  int count = 0;
  for (std::uint32_t mask = 0; mask < (1u << n); ++mask) {
    if (std::popcount(mask) != k) continue;
    std::vector<int> members;
    for (int i = 0; i < n; ++i) {
      if (mask >> i & 1) members.push_back(i);
    }
    visit(members);
    ++count;
  }
  return count;
}

double brute_force_speedup_at_k(const std::vector<double>& speedups, int k) {
  double sum = 0;
  const int count =
      for_each_subset(static_cast<int>(speedups.size()), k, [&](const std::vector<int>& members) {
        double best = 0;
        for (int i : members) best = std::max(best, speedups[static_cast<std::size_t>(i)]);
        sum += best;
      });
  return sum / count;
}

double brute_force_pass_at_k(int n, int c, int k) {
  int passed = 0;
  const int count = for_each_subset(n, k, [&](const std::vector<int>& members) {
    passed += std::any_of(members.begin(), members.end(), [c](int i) { return i < c; });
  });
  return static_cast<double>(passed) / count;
}

TEST(FastP, IsStrictAndCountsEveryTask) {
  const std::array<TaskResult, 4> results = {{{true, 1.0}, {true, 2.5}, {false, 9.0}, {true, 0.5}}};
  EXPECT_EQ(fast_p(results, 0), 0.75);
  EXPECT_EQ(fast_p(results, 1), 0.25) << "a kernel as fast as the baseline is not faster";
  EXPECT_EQ(fast_p(results, 2.5), 0);
  EXPECT_EQ(fast_p({}, 1), 0);
}

TEST(PassAtK, EqualsTheShareOfSubsetsWithACorrectSample) {
  for (int n = 1; n <= 8; ++n) {
    for (int c = 0; c <= n; ++c) {
      for (int k = 1; k <= n; ++k) EXPECT_NEAR(pass_at_k(n, c, k), brute_force_pass_at_k(n, c, k), 1e-12);
    }
  }
  EXPECT_NEAR(pass_at_k(100'000, 1, 1), 1e-5, 1e-12) << "no overflow";
}

TEST(SpeedupAtK, OfTimes1248AgainstBase8With2SamplesIs5Point67) {
  EXPECT_NEAR(speedup_at_k({8.0 / 1, 8.0 / 2, 8.0 / 4, 8.0 / 8}, 2), 17.0 / 3, 1e-12);
}

TEST(SpeedupAtK, EqualsTheMeanBestOfAllSubsetsFailuresIncluded) {
  Rng rng(Seed::from_number(5));
  for (int n = 1; n <= 9; ++n) {
    std::vector<double> speedups;
    for (int i = 0; i < n; ++i) speedups.push_back(rng.chance(0.3) ? 0 : 10 * rng.uniform());
    for (int k = 1; k <= n; ++k)
      EXPECT_NEAR(speedup_at_k(speedups, k), brute_force_speedup_at_k(speedups, k), 1e-12);
  }
}

TEST(SpeedupAtK, CountsAFailureAsZeroRatherThanDroppingIt) { EXPECT_NEAR(speedup_at_k({4, 0}, 1), 2, 1e-12); }

TEST(EfficiencyAtK, DividesEachTermByItsResources) {
  const std::vector<double> speedups = {8, 4, 2};
  const std::vector<double> threads = {8, 2, 1};
  EXPECT_NEAR(efficiency_at_k(speedups, threads, 2), brute_force_speedup_at_k({1, 2, 2}, 2), 1e-12);
}

}  // namespace
}  // namespace lathe
