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

}  // namespace
}  // namespace lathe::cuda
