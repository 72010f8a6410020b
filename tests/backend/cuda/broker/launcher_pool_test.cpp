#include "backend/cuda/broker/launcher_pool.h"

#include <gtest/gtest.h>

namespace lathe::cuda {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST(LauncherPool, KeepsAsManyProcessesAsAQuarterOfTheMemoryHolds) {
  EXPECT_EQ(launchers_worth_keeping(80 * kGiB, 1), 32u);
  EXPECT_EQ(launchers_worth_keeping(141 * kGiB, 1), 48u) << "no more";
  EXPECT_EQ(launchers_worth_keeping(8 * kGiB, 1), 8u) << "no fewer";
}

TEST(LauncherPool, AHostsGpusKeepNoMoreTogetherThanItsDriverCanMake) {
  EXPECT_EQ(launchers_worth_keeping(141 * kGiB, 2), 48u);
  EXPECT_EQ(launchers_worth_keeping(141 * kGiB, 4), 24u);
  EXPECT_EQ(launchers_worth_keeping(141 * kGiB, 8), 12u);
  EXPECT_EQ(launchers_worth_keeping(141 * kGiB, 16), 8u);
}

TEST(Allowance, IsHalvedWhereMemoryIsFullAndGrowsAgainWhereItLongWasNot) {
  Allowance allowance(48);
  allowance.halve();
  allowance.halve();
  EXPECT_EQ(allowance.now(), 12u);
  for (int i = 0; i < 255; ++i) allowance.grow_when_calm();
  EXPECT_EQ(allowance.now(), 12u);
  allowance.grow_when_calm();
  EXPECT_EQ(allowance.now(), 24u);
  for (int i = 0; i < 2000; ++i) allowance.grow_when_calm();
  EXPECT_EQ(allowance.now(), 48u) << "no more than at first";
  for (int i = 0; i < 8; ++i) allowance.halve();
  EXPECT_EQ(allowance.now(), 1u) << "never none";
}

}  // namespace
}  // namespace lathe::cuda
