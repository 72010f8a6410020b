#include "train/schedule.h"

#include <gtest/gtest.h>

namespace lathe::train {
namespace {

TEST(Schedule, RisesInAStraightLineAndFallsAlongHalfACosine) {
  const Schedule schedule{.peak = 1, .warmup_steps = 4, .steps = 24, .final_fraction = 0.1};
  for (int step = 0; step < 4; ++step) EXPECT_DOUBLE_EQ(schedule.at(step), (step + 1) / 5.0);
  EXPECT_DOUBLE_EQ(schedule.at(4), 1);
  EXPECT_NEAR(schedule.at(14), 0.55, 1e-12);
  EXPECT_NEAR(schedule.at(24), 0.1, 1e-12);
  EXPECT_NEAR(schedule.at(99), 0.1, 1e-12);
  for (int step = 5; step < 24; ++step) EXPECT_LT(schedule.at(step), schedule.at(step - 1));
}

TEST(Schedule, StaysLevelWhereItShall) {
  const Schedule schedule{.peak = 3, .warmup_steps = 1, .steps = 9, .decay = Decay::kConstant};
  EXPECT_DOUBLE_EQ(schedule.at(0), 1.5);
  EXPECT_DOUBLE_EQ(schedule.at(8), 3);
}

}  // namespace
}  // namespace lathe::train
