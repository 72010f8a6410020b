#include "gym/bottleneck.h"

#include <gmock/gmock.h>

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Counters = std::map<std::string, double>;

/// A kernel that is near no roof, whose multiprocessors are busy to the end and full of warps.
Counters healthy() {
  return {{"call_ns", 2e5},       {"dram_share", 0.3},  {"l2_share", 0.2},
          {"tensor_share", 0},    {"fma_share", 0.1},   {"issue_share", 0.3},
          {"busiest_sm", 0.95},   {"sm_balance", 0.97}, {"occupancy", 0.8},
          {"blocks", 4096},       {"threads", 256},     {"blocks_per_sm", 8},
          {"waves", 3.9},         {"limit_blocks", 32}, {"limit_threads", 8},
          {"limit_registers", 8}, {"limit_shared", 14}, {"theoretical_occupancy", 1}};
}

Counters with(const Counters& changes) {
  Counters counters = healthy();
  for (const auto& [name, value] : changes) counters[name] = value;
  return counters;
}

std::vector<std::string> names(const Counters& counters) {
  std::vector<std::string> all;
  for (const Bottleneck& bottleneck : find_bottlenecks(counters)) all.push_back(bottleneck.name);
  return all;
}

TEST(Bottleneck, NamesTheRoofThatIsReachedAndHowFar) {
  EXPECT_THAT(names(with({{"l2_share", 0.71}})), ElementsAre("l2_bound"));
  EXPECT_THAT(names(with({{"tensor_share", 0.82}})), ElementsAre("tensor_bound"));
  EXPECT_THAT(names(with({{"fma_share", 0.9}})), ElementsAre("fma_bound"));
  const auto found = find_bottlenecks(with({{"dram_share", 0.83}}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "dram_bound");
  EXPECT_DOUBLE_EQ(found[0].share, 0.83);
  EXPECT_EQ(found[0].detail, "83% of DRAM's bandwidth");
}

TEST(Bottleneck, OfTwoRoofsTheNearerComesFirst) {
  EXPECT_THAT(names(with({{"dram_share", 0.7}, {"fma_share", 0.85}})),
              ElementsAre("fma_bound", "dram_bound"));
}

TEST(Bottleneck, WhatLatheMeasuredOfDramCountsMoreThanWhatIsOnPaper) {
  const auto found = find_bottlenecks(with({{"dram_share", 0.58}, {"dram_of_measured_peak", 0.66}}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "dram_bound");
  EXPECT_DOUBLE_EQ(found[0].share, 0.66);
}

TEST(Bottleneck, FarFromEveryRoofTheDominatingStallIsNamed) {
  const auto found = find_bottlenecks(
      with({{"stall.long_scoreboard", 0.62}, {"stall.barrier", 0.2}, {"stall.selected", 0.9}}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "latency_bound");
  EXPECT_DOUBLE_EQ(found[0].share, 0.62);
  EXPECT_THAT(found[0].detail, HasSubstr("wait for data from L1, L2 or DRAM (long_scoreboard)"));
  EXPECT_THAT(found[0].detail, HasSubstr("nearest roof is 30% of DRAM's bandwidth"));
  EXPECT_THAT(names(with({{"dram_share", 0.8}, {"stall.long_scoreboard", 0.9}})), ElementsAre("dram_bound"))
      << "at a roof, waiting for it is no second reason";
}

TEST(Bottleneck, ShortCallsAreBoundByTheirLaunches) {
  const auto found = find_bottlenecks(with({{"call_ns", 2100}, {"busiest_sm", 0.4}}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "launch_bound");
  EXPECT_NEAR(found[0].share, 0.6, 1e-12);
  EXPECT_THAT(found[0].detail, HasSubstr("2.1 us"));
}

TEST(Bottleneck, AnUnevenEndIsATailAndNamesTheWaves) {
  const auto found = find_bottlenecks(with({{"sm_balance", 0.6}, {"waves", 1.2}, {"blocks", 1267}}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "tail_effect");
  EXPECT_NEAR(found[0].share, 0.4, 1e-12);
  EXPECT_THAT(found[0].detail, HasSubstr("1267 blocks are 1.20 waves"));
}

TEST(Bottleneck, LowOccupancyNamesItsLimiter) {
  const Counters registers = {{"occupancy", 0.12},  {"theoretical_occupancy", 0.125},
                              {"blocks_per_sm", 1}, {"limit_registers", 1},
                              {"limit_shared", 3},  {"waves", 31}};
  auto found = find_bottlenecks(with(registers));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "low_occupancy");
  EXPECT_THAT(found[0].detail, HasSubstr("1 block of 256 threads, limited by registers"));

  Counters shared = registers;
  shared["limit_shared"] = 1, shared["limit_registers"] = 2;
  EXPECT_THAT(find_bottlenecks(with(shared))[0].detail, HasSubstr("limited by shared memory"));

  found = find_bottlenecks(with({{"occupancy", 0.13}, {"waves", 0.12}, {"blocks", 128}}));
  EXPECT_THAT(found[0].detail, HasSubstr("the grid has only 128 blocks"));
  EXPECT_THAT(names(with({{"occupancy", 0.12}, {"tensor_share", 0.8}})), ElementsAre("tensor_bound"))
      << "few warps that reach a roof are enough";
}

TEST(Bottleneck, WhatIsNotKnownSupportsNoConclusion) {
  EXPECT_THAT(find_bottlenecks({}), IsEmpty());
  EXPECT_THAT(find_bottlenecks(healthy()), IsEmpty());
  EXPECT_THAT(find_bottlenecks({{"occupancy", 0.1}})[0].detail, HasSubstr("not known"));
}

}  // namespace
}  // namespace lathe
