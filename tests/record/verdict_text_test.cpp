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

TEST(ProfileText, OfNothingItIsTheShapeAlone) { EXPECT_EQ(profile_text({.shape = "n=1"}), "    n=1\n"); }

TEST(DeviceStateText, NamesWhatHeldTheClockBack) {
  Verdict verdict;
  EXPECT_EQ(device_state_text(verdict), "");
  verdict.profile = {{"clock_mhz", 1755}, {"power_w", 698.4}, {"throttled.power_cap", 0.75}};
  EXPECT_EQ(device_state_text(verdict), "1755 MHz, 698 W, held back by power_cap in 75% of blocks");
}

TEST(FeedbackText, OfAFastKernelSaysHowFastWhere) {
  Verdict verdict;
  verdict.outcome = Outcome::kPass;
  verdict.reason = "ok";
  verdict.evidence.cases = {{.shape = "n=7", .distribution = "normal", .worst_ratio = 0.25}};
  verdict.timings = {{.shape = "n=64", .median_ns = 2500}};
  verdict.speedups = {{.baseline = "cublas", .shape = "n=64", .ratio = {1.1, 1.2, 1.3}},
                      {.baseline = "naive", .shape = "n=64", .ratio = {9, 9, 9}}};
  verdict.uncovered = {"n=63"};
  EXPECT_EQ(feedback_text(verdict, "cublas"),
            "PASS (ok)\n"
            "  worst at n=7, normal inputs: error 0.25 of the bound\n"
            "  n=64: 2.5 us, 1.20x cublas [1.10, 1.30]\n"
            "  not covered: n=63\n");
}

TEST(FeedbackText, OfAWrongKernelNamesTheFailedCaseButNoHiddenShape) {
  Verdict verdict;
  verdict.outcome = Outcome::kWrong;
  verdict.reason = "bound";
  verdict.evidence.cases = {{.shape = "n=64", .distribution = "normal", .worst_ratio = 40},
                            {.shape = "n=61",
                             .distribution = "spikes",
                             .hidden = true,
                             .pass = false,
                             .reason = "bound",
                             .worst_ratio = 12}};
  EXPECT_EQ(feedback_text(verdict, "cublas"),
            "WRONG (bound)\n"
            "  failed at a hidden shape, spikes inputs: error 12 of the bound, bound\n");
}

TEST(FeedbackText, OfWhatDoesNotBuildHoldsTheCompilersWordsOnce) {
  Verdict verdict;
  verdict.outcome = Outcome::kBuildFailed;
  verdict.reason = "compile_error";
  verdict.build.log = "3: error: expected ';'";
  EXPECT_EQ(feedback_text(verdict, "cublas"), "BUILD_FAILED (compile_error)\n3: error: expected ';'\n");
  verdict.detail = verdict.build.log;
  EXPECT_EQ(feedback_text(verdict, "cublas"), "BUILD_FAILED (compile_error): 3: error: expected ';'\n");
}

}  // namespace
}  // namespace lathe
