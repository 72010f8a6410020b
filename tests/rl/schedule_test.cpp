#include "rl/schedule.h"

#include <gmock/gmock.h>

namespace lathe::rl {
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

TEST(Schedule, OrFallsInAStraightLine) {
  const Schedule schedule{
      .peak = 2, .warmup_steps = 1, .steps = 11, .decay = Decay::kLinear, .final_fraction = 0.5};
  EXPECT_DOUBLE_EQ(schedule.at(0), 1);
  for (int step = 1; step <= 11; ++step) EXPECT_DOUBLE_EQ(schedule.at(step), 2 - 0.1 * (step - 1));
  EXPECT_DOUBLE_EQ(schedule.at(99), 1);
}

TEST(Schedule, OfASingleStepIsThePeak) {
  for (const Decay decay : {Decay::kCosine, Decay::kConstant, Decay::kLinear}) {
    const Schedule schedule{.peak = 3, .steps = 1, .decay = decay};
    EXPECT_EQ(schedule.at(0), 3);
  }
}

TEST(Schedule, HasANameForEachWay) {
  EXPECT_EQ(*parse_decay("cosine"), Decay::kCosine);
  EXPECT_EQ(*parse_decay("constant"), Decay::kConstant);
  EXPECT_EQ(*parse_decay("linear"), Decay::kLinear);
  EXPECT_THAT(parse_decay("steep").error().hint, testing::HasSubstr("linear"));
}

TEST(Schedule, StaysLevelWhereItShall) {
  const Schedule schedule{.peak = 3, .warmup_steps = 1, .steps = 9, .decay = Decay::kConstant};
  EXPECT_DOUBLE_EQ(schedule.at(0), 1.5);
  EXPECT_DOUBLE_EQ(schedule.at(8), 3);
}

}  // namespace
}  // namespace lathe::rl
