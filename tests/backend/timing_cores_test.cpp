#include "backend/timing_cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TimingCoresTest, OneThreadGetsTheHighestProcessorOfAMachineWithoutSiblings) {
  const auto cores = choose_timing_cores(std::vector{0, 1, 2, 3}, std::vector{0, 1, 2, 3}, 1);
  EXPECT_THAT(cores.timed, ElementsAre(3));
  EXPECT_THAT(cores.others, ElementsAre(0, 1, 2));
}

TEST(TimingCoresTest, TheSiblingOfATimedProcessorIsKeptFree) {
  // Siblings are half of the machine apart.
  const auto cores =
      choose_timing_cores(std::vector{0, 1, 2, 3, 4, 5, 6, 7}, std::vector{0, 1, 2, 3, 0, 1, 2, 3}, 2);
  EXPECT_THAT(cores.timed, ElementsAre(7, 6));
  EXPECT_THAT(cores.others, ElementsAre(0, 1, 4, 5));
}

TEST(TimingCoresTest, ThreadsGetCoresOfTheirOwnWhereSiblingsAreNeighbours) {
  const auto cores = choose_timing_cores(std::vector{0, 1, 2, 3, 4, 5}, std::vector{0, 0, 2, 2, 4, 4}, 2);
  EXPECT_THAT(cores.timed, ElementsAre(5, 3));
  EXPECT_THAT(cores.others, ElementsAre(0, 1));
}

TEST(TimingCoresTest, MoreThreadsThanCoresShareThem) {
  const auto cores = choose_timing_cores(std::vector{0, 1, 2, 3}, std::vector{0, 0, 2, 2}, 3);
  EXPECT_THAT(cores.timed, ElementsAre(3, 1, 2));
  EXPECT_THAT(cores.others, IsEmpty());
}

TEST(TimingCoresTest, MoreThreadsThanProcessorsHaveThemAll) {
  const auto cores = choose_timing_cores(std::vector{2, 5}, std::vector{2, 5}, 8);
  EXPECT_THAT(cores.timed, ElementsAre(5, 2));
  EXPECT_THAT(cores.others, IsEmpty());
}

}  // namespace
}  // namespace lathe
