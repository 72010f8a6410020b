#include "backend/cuda/runner/counters.h"

#include <gmock/gmock.h>

namespace lathe::cuda {
namespace {

using testing::Contains;
using testing::Each;
using testing::Key;
using testing::Not;

using Values = std::map<std::string, double>;

/// Four calls in 100 us, which took 150 us while they were counted, at 2 GHz.
constexpr CountedBlock kBlock{1e5, 4};
Values measured() {
  return {{"gpu__time_duration.sum", 1.5e5},
          {"sm__cycles_elapsed.max", 3e5},
          {"sm__cycles_active.avg", 1e5},
          {"sm__cycles_active.max", 1.6e5},
          {"dram__bytes_read.sum", 4e6},
          {"dram__bytes.sum.pct_of_peak_sustained_elapsed", 40},
          {"lts__t_sectors.sum", 1e6},
          {"lts__t_sectors_lookup_hit.sum", 750},
          {"lts__t_sectors_lookup_miss.sum", 250},
          {"sm__warps_active.avg.pct_of_peak_sustained_active", 50},
          {"smsp__warps_issue_stalled_barrier.sum", 30},
          {"smsp__warps_issue_stalled_long_scoreboard.sum", 70}};
}

TEST(Counters, TotalsAreOfOneCall) {
  const Values counters = name_counters(measured(), kBlock);
  EXPECT_DOUBLE_EQ(counters.at("calls"), 4);
  EXPECT_DOUBLE_EQ(counters.at("call_ns"), 2.5e4);
  EXPECT_DOUBLE_EQ(counters.at("dram_read_bytes"), 1e6);
  EXPECT_DOUBLE_EQ(counters.at("l2_bytes"), 8e6);
}

TEST(Counters, SharesAreOfTheBlocksUncountedTime) {
  const Values counters = name_counters(measured(), kBlock);
  EXPECT_DOUBLE_EQ(counters.at("dram_share"), 0.6);
  EXPECT_DOUBLE_EQ(counters.at("busiest_sm"), 0.8);
  EXPECT_DOUBLE_EQ(counters.at("sm_busy"), 0.5);
  EXPECT_DOUBLE_EQ(counters.at("sm_balance"), 0.625);
  EXPECT_DOUBLE_EQ(counters.at("counted_clock_mhz"), 2000);
  EXPECT_DOUBLE_EQ(counters.at("occupancy"), 0.5) << "a share of the time that warps were there stays";
}

TEST(Counters, RatesAndStallsAreShares) {
  const Values counters = name_counters(measured(), kBlock);
  EXPECT_DOUBLE_EQ(counters.at("l2_hit_rate"), 0.75);
  EXPECT_DOUBLE_EQ(counters.at("stall.barrier"), 0.3);
  EXPECT_DOUBLE_EQ(counters.at("stall.long_scoreboard"), 0.7);
}

TEST(Counters, CountersWithoutMetricsAreLeftOut) {
  Values metrics = measured();
  metrics.erase("dram__bytes_read.sum");
  metrics.erase("gpu__time_duration.sum");
  const Values counters = name_counters(metrics, kBlock);
  for (const char* name : {"dram_read_bytes", "dram_share", "sm_busy", "tensor_share", "l1_hit_rate"})
    EXPECT_THAT(counters, Not(Contains(Key(name))));
  EXPECT_THAT(name_counters({}, kBlock), testing::ElementsAre(Key("call_ns"), Key("calls")));
}

TEST(Counters, OccupancyIsLimitedByTheScarcestResource) {
  KernelUse use;
  use.blocks = 1056;
  use.threads = 256;
  use.registers = 96;
  use.shared_bytes = 100 << 10;
  use.blocks_per_sm = 2;
  SmLimits limits;
  limits.multiprocessors = 132;
  limits.shared_bytes = 228 << 10;
  const Values facts = kernel_facts(use, limits);
  EXPECT_DOUBLE_EQ(facts.at("limit_threads"), 8);
  EXPECT_DOUBLE_EQ(facts.at("limit_registers"), 2) << "five warps of 3072 registers in each of four files";
  EXPECT_DOUBLE_EQ(facts.at("limit_shared"), 2);
  EXPECT_DOUBLE_EQ(facts.at("theoretical_occupancy"), 0.25);
  EXPECT_DOUBLE_EQ(facts.at("waves"), 4);
  use.blocks_per_sm = 0;
  EXPECT_THAT(kernel_facts(use, limits), Not(Contains(Key("waves")))) << "the driver did not say";
}

}  // namespace
}  // namespace lathe::cuda
