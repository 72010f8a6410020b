#include "record/verdict_text.h"

#include <gmock/gmock.h>

namespace lathe {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ProfileText, SaysBottlenecksFirstThenWhatIsKnown) {
  const ShapeProfile profile{.shape = "rows=4096",
                             .counters = {{"dram_share", 0.83},
                                          {"occupancy", 0.5},
                                          {"waves", 3.875},
                                          {"joules", 0.0125},
                                          {"stall.barrier", 0.1},
                                          {"stall.long_scoreboard", 0.6},
                                          {"stall.wait", 0.04},
                                          {"stall.drain", 0.03},
                                          {"stall.misc", 0.02}},
                             .bottlenecks = {{"dram_bound", 0.83, "83% of DRAM's bandwidth"}},
                             .notes = {"no energy"}};
  EXPECT_EQ(profile_text(profile),
            "    rows=4096\n"
            "      dram_bound      83%  83% of DRAM's bandwidth\n"
            "      reached  DRAM 83%\n"
            "      warps    occupancy 50%, 3.88 waves\n"
            "      stalls   long_scoreboard 60%, barrier 10%, wait 4%, drain 3%\n"
            "      energy   12.5 mJ a call\n"
            "      note: no energy\n");
}

TEST(ProfileText, SaysWhoseKernelsCompute) {
  EXPECT_EQ(profile_text({.shape = "n=1",
                          .counters = {{"kernels", 3}, {"own_kernels", 1}, {"own_kernel_share", 0.255}}}),
            "    n=1\n      kernels  3 a call, 1 of its own, which take 26% of the time\n");
}

TEST(ProfileText, OfNothingItIsTheShapeAlone) { EXPECT_EQ(profile_text({.shape = "n=1"}), "    n=1\n"); }

TEST(DeviceStateText, NamesWhatHeldTheClockBack) {
  Verdict verdict;
  EXPECT_EQ(device_state_text(verdict), "");
  verdict.profile = {{"clock_mhz", 1755}, {"power_w", 698.4}, {"throttled.power_cap", 0.75}};
  EXPECT_EQ(device_state_text(verdict), "1755 MHz, 698 W, held back by power_cap in 75% of blocks");
}

}  // namespace
}  // namespace lathe
