#include <gmock/gmock.h>
#include <unistd.h>

#include "gemm/bench.h"
#include "report/gemm_chart.h"
#include "tests/gemm/fake_gemm_device.h"

namespace lathe::gemm {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Row row(Size size, double ours_ns, double autotuned_ns) {
  Row made{.size = size, .kernel = "k", .lt_choice = "lt_tn_0"};
  made.warm = {.ours = ours_ns,
               .dispatched = ours_ns,
               .cublas = 2 * autotuned_ns,
               .lt_heuristic = autotuned_ns,
               .lt_autotuned = autotuned_ns};
  made.offline = {.ours = 5 * ours_ns, .lt_autotuned = 6 * autotuned_ns};
  made.host_ours = 700;
  made.ratio_low = 0.9, made.ratio_high = 1.5;
  return made;
}

TEST(GemmResults, ATableIsReadAsItWasWritten) {
  const std::vector<Row> rows = {row({64, 64, 64}, 2000, 2600.5), row({128, 64, 64}, 3000, 2000)};
  const auto read = rows_of_csv(csv_of(rows), "t.csv");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ(csv_of(*read), csv_of(rows));
  EXPECT_EQ((*read)[0].warm.lt_autotuned, 2600.5);
  EXPECT_EQ((*read)[0].cold.ours, 0);
}

TEST(GemmResults, ATableOfFewerColumnsIsReadToo) {
  const auto read = rows_of_csv("m,n,k,kernel,ours_ns,lt_autotuned_ns\n64,128,256,a,1000,1500.5\n", "t.csv");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ((*read)[0].size, (Size{64, 128, 256}));
  EXPECT_EQ((*read)[0].warm.lt_autotuned, 1500.5);
  EXPECT_EQ((*read)[0].server.ours, 0);
}

TEST(GemmResults, AWrongLineOfATableIsNamed) {
  const std::string good = csv_of({row({64, 64, 64}, 2000, 2600)});
  EXPECT_FALSE(rows_of_csv("m,n\n", "t.csv").ok());
  const auto commas =
      std::count(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(good.find('\n')), ',');
  const std::string blank(static_cast<std::size_t>(commas) - 5, ',');
  for (const std::string& bad :
       {std::string("1,2,3\n"), "64,64,64,k,,x" + blank + "\n", "64,64,64,k,," + blank + "\n"}) {
    const auto read = rows_of_csv(good + bad, "t.csv");
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_EQ(read.error().where.line, 3);
  }
}

TEST(GemmResults, TorchsTimesAreFilledIn) {
  std::vector<Row> rows = {row({64, 64, 64}, 1000, 2000), row({128, 64, 64}, 4000, 2000)};
  const std::string header = "m,n,k,kernel,dispatched_ns,torch_ns,dispatched_host_us,torch_host_us\n";
  ASSERT_TRUE(add_torch_times(rows, header + "64,64,64,k,1100,500,1,2\n1,1,1,k,1,1,1,1\n", "t.csv").ok());
  EXPECT_EQ(rows[0].warm.dispatched, 1100);
  EXPECT_EQ(rows[0].warm.vendor_best(), 500);
  EXPECT_EQ(rows[1].warm.torch, 0);
  EXPECT_EQ(rows[0].offline.torch, 0);
  const std::string wall = "m,n,k,kernel,dispatched_ns,torch_ns,offline_dispatched_ns,offline_torch_ns\n";
  ASSERT_TRUE(add_torch_times(rows, wall + "64,64,64,k,1100,500,9000,9500\n", "t.csv").ok());
  EXPECT_EQ(rows[0].offline.torch, 9500);
  EXPECT_EQ(rows[0].offline.dispatched, 9000);
  EXPECT_EQ(add_torch_times(rows, header + "64,64\n", "t.csv").error().where.line, 2);
  EXPECT_FALSE(add_torch_times(rows, "m,n\n", "t.csv").ok());
}

TEST(GemmResults, OnlyAClockOfAGpuIsOne) {
  EXPECT_DOUBLE_EQ(mhz_of(59'400, 30'000), 1980);
  EXPECT_EQ(mhz_of(177'008'617'830'239, 0), 0) << "another check's sum where the clocks should be";
  EXPECT_EQ(mhz_of(177'008'617'830'239, 1), 0);
  EXPECT_EQ(mhz_of(59'400, -1), 0);
  EXPECT_EQ(mhz_of(-5, 30'000), 0);
  EXPECT_EQ(mhz_of(1, 30'000), 0);
}

TEST(GemmResults, TheSummaryShowsLossesFirst) {
  const std::string text = summary_of({row({64, 64, 64}, 1000, 2000), row({128, 64, 64}, 4000, 2000)}, 132);
  EXPECT_THAT(text, HasSubstr("| cuBLASLt autotuned | 2 | 1.000 | 50% | 50% |"));
  EXPECT_LT(text.find("128x64x64"), text.find("64x64x64 | 2.000"));
}

TEST(GemmResults, TheHeatMapHasACellForEachSize) {
  const std::string svg = gemm_heat_map({row({64, 64, 64}, 1000, 2000), row({128, 64, 64}, 4000, 2000)});
  EXPECT_THAT(svg, HasSubstr("64x64x64: 2.000x"));
  EXPECT_THAT(svg, HasSubstr("128x64x64: 0.500x"));
  EXPECT_THAT(svg, StartsWith("<svg xmlns=")) << "a file that browsers show by itself";
}

TEST(GemmBench, TimesTheChoiceAgainstEveryVendorOfTheSize) {
  FakeGemmDevice device;
  const std::string path = testing::TempDir() + "gemm_bench_test" + std::to_string(::getpid());
  std::remove(path.c_str());
  auto journal = Journal::open(path);
  ASSERT_TRUE(journal.ok());
  const Size size{64, 64, 64};
  const std::string kernel = "direct_tn_16x16x32_w1x1_g2_s1_c1_m1_n1_b1_o1_k1_vectors";
  ASSERT_TRUE(journal->add(Choice{.size = size, .kernel = kernel, .lt = "lt_tn_1"}).ok());
  NullSink sink;
  const Compile compile = [](const std::string&, Inspect) -> Result<Build> { return Build{"cubin", {}}; };
  const auto report =
      bench(device, compile, *journal, {.sizes = {size, {1, 1, 1}}, .verify_repeats = 1}, sink, {});
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_EQ(report->unknown, 1);
  ASSERT_EQ(report->rows.size(), 1u);
  const Row& row = report->rows[0];
  EXPECT_EQ(row.warm.cublas, 4100);
  EXPECT_EQ(row.warm.lt_heuristic, 4300);
  EXPECT_EQ(row.warm.lt_autotuned, 4500);
  EXPECT_EQ(row.warm.vendor_best(), 4100);
  EXPECT_EQ(row.cold.ours, 1.5 * row.warm.ours);
  EXPECT_EQ(row.sm_mhz, 1980);
  EXPECT_EQ(row.offline.ours, 0) << "not asked for";
  EXPECT_EQ(row.ours_w + row.lt_w, 0) << "not asked for";
  const auto powered = bench(device, compile, *journal, {.sizes = {size}, .power_seconds = 1}, sink, {});
  ASSERT_TRUE(powered.ok());
  EXPECT_EQ(powered->rows[0].ours_w, 400);
  EXPECT_EQ(powered->rows[0].lt_w, 500);
  const auto read = rows_of_csv(csv_of(powered->rows), "t.csv");
  ASSERT_TRUE(read.ok()) << read.error().to_string();
  EXPECT_EQ((*read)[0].throttle, "power_cap");
  EXPECT_EQ((*read)[0].lt_w, 500);
  const auto timed = bench(device, compile, *journal, {.sizes = {size}, .wall_calls = 7}, sink, {});
  ASSERT_TRUE(timed.ok());
  const Row& wall = timed->rows[0];
  EXPECT_EQ(wall.offline.ours, wall.warm.ours + 1000);
  EXPECT_EQ(wall.offline.lt_autotuned, 6500);
  EXPECT_EQ(wall.server.lt_autotuned, 2 * 6500);
  EXPECT_EQ(wall.host_ours, 1000);
  EXPECT_EQ(wall.host_lt_autotuned, 2000);
  EXPECT_THAT(summary_of({wall}, 132), HasSubstr("the host's part, medians: 1.00 us, cuBLASLt's 2.00 us"));
  EXPECT_THAT(summary_of({row}, 132), testing::Not(HasSubstr("offline")));
  device.wrong = {kernel};
  EXPECT_FALSE(bench(device, compile, *journal, {.sizes = {size}, .verify_repeats = 1}, sink, {}).ok());
  std::remove(path.c_str());
}

/// The journal's vendor reads B otherwise: another one is chosen among those that read it as ours
/// does.
TEST(GemmBench, OfVendorsTheLayoutOfOursAlone) {
  FakeGemmDevice device;
  const std::string path = testing::TempDir() + "gemm_same_layout_test" + std::to_string(::getpid());
  std::remove(path.c_str());
  auto journal = Journal::open(path);
  ASSERT_TRUE(journal.ok());
  const std::string kernel = "direct_tn_16x16x32_w1x1_g2_s1_c1_m1_n1_b1_o1_k1_vectors";
  for (const Size& size : {Size{64, 64, 64}, Size{64, 64, 128}})
    ASSERT_TRUE(
        journal->add(Choice{.size = size, .kernel = kernel, .lt = size.k == 64 ? "lt_nn_0" : "lt_tn_1"})
            .ok());
  NullSink sink;
  const Compile compile = [](const std::string&, Inspect) -> Result<Build> { return Build{"cubin", {}}; };
  const BenchOptions options{.sizes = {{64, 64, 64}, {64, 64, 128}}, .same_layout = true};
  const auto report = bench(device, compile, *journal, options, sink, {});
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  const Row& chosen = report->rows[0];
  EXPECT_EQ(chosen.lt_choice, "lt_tn_0");
  EXPECT_EQ(chosen.warm.lt_autotuned, 4400);
  EXPECT_EQ(chosen.warm.cublas, 4200) << "TN's alone";
  EXPECT_EQ(chosen.warm.lt_heuristic, 4400);
  EXPECT_EQ(report->rows[1].lt_choice, "lt_tn_1") << "the journal's own";
  std::remove(path.c_str());
}

}  // namespace
}  // namespace lathe::gemm
