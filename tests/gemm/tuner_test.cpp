#include "gemm/tuner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "base/fd.h"
#include "gemm/bench.h"
#include "gemm/catalogue.h"
#include "gemm/explain.h"
#include "gemm/sizes.h"
#include "tests/gemm/fake_gemm_device.h"

namespace lathe::gemm {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr Size kSize{128, 64, 4096};

class GemmTuner : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  Journal journal() {
    auto journal = Journal::open(path_);
    EXPECT_TRUE(journal.ok()) << journal.error().to_string();
    return *std::move(journal);
  }
  Result<TuneReport> tune(std::vector<Size> sizes, FakeGemmDevice& device, const Track& track = {}) {
    Journal own = journal();
    Tuner tuner(device, compile_, own, sink_);
    return tuner.run({.sizes = std::move(sizes), .track = track}, {});
  }

  std::string path_ = testing::TempDir() + "gemm_tuner_test" + std::to_string(::getpid());
  Compile compile_ = [](const std::string&, Inspect) -> Result<Build> { return Build{"cubin", {}}; };
  RecordingSink sink_;
};

TEST_F(GemmTuner, ChoosesTheFastestThatIsRight) {
  FakeGemmDevice device;
  const Problem problem{Layout::kTN, kSize.m, kSize.n, kSize.k};
  const auto proposed = shortlist(problem, 132, 24);
  device.changed[name_of(proposed[5])] = 0.1;
  device.changed[name_of(proposed[9])] = 0.2;
  device.wrong = {name_of(proposed[5])};
  ASSERT_TRUE(tune({kSize}, device).ok());
  const Journal after = journal();
  ASSERT_NE(after.choice(kSize), nullptr);
  EXPECT_EQ(after.choice(kSize)->kernel, name_of(proposed[9]));
  EXPECT_EQ(after.choice(kSize)->lt, "lt_nn_0");
  EXPECT_TRUE(after.is_bad(name_of(proposed[5])));
}

TEST_F(GemmTuner, LooksNearTheBestBeyondTheShortlist) {
  FakeGemmDevice device;
  const Problem problem{Layout::kTN, kSize.m, kSize.n, kSize.k};
  const auto proposed = shortlist(problem, 132, 24);
  for (const Plan& plan : ranked_plans(problem, 132)) {
    if (std::find(proposed.begin(), proposed.end(), plan) != proposed.end() ||
        distance(plan, proposed[0]) != 1)
      continue;
    device.changed[name_of(plan)] = 0.01;
    ASSERT_TRUE(tune({kSize}, device).ok());
    const double best = journal().choice(kSize)->kernel_ns;
    EXPECT_LT(best, 0.2 * device.time_of(kSize, proposed[0])) << name_of(plan);
    return;
  }
  FAIL() << "the shortlist has every neighbour of its first";
}

TEST_F(GemmTuner, TriesWhatWonAtSimilarSizes) {
  const Problem problem{Layout::kTN, kSize.m, kSize.n, kSize.k};
  const auto proposed = shortlist(problem, 132, 12);
  const auto ranked = ranked_plans(problem, 132);
  const auto hidden = std::find_if(ranked.begin(), ranked.end(), [&](const Plan& plan) {
    return std::all_of(proposed.begin(), proposed.end(),
                       [&](const Plan& one) { return distance(plan, one) > 1; });
  });
  ASSERT_NE(hidden, ranked.end());
  Plan elsewhere = *hidden;
  elsewhere.layout = Layout::kNN;
  FakeGemmDevice device;
  device.changed[name_of(*hidden)] = 0.001;
  for (const bool knows : {false, true}) {
    SetUp();
    TuneOptions options{.sizes = {kSize}, .screened = 12, .winners = 1, .neighbours = 0};
    if (knows)
      options.learned = {{.size = {64, 64, 64}, .kernel = name_of(proposed[3])},
                         {.size = {128, 64, 8192}, .kernel = name_of(elsewhere)},
                         {.size = {64, 64, 128}, .kernel = "a kernel of another version"}};
    Journal own = journal();
    ASSERT_EQ(Tuner(device, compile_, own, sink_).run(options, {})->tuned, 1);
    EXPECT_EQ(own.choice(kSize)->kernel == name_of(*hidden), knows);
  }
}

TEST_F(GemmTuner, GoesOnWhereItWas) {
  FakeGemmDevice device;
  ASSERT_EQ(tune({kSize, {64, 64, 64}}, device)->tuned, 2);
  const int timings = device.timings;
  const auto again = tune({kSize, {64, 64, 64}}, device);
  EXPECT_EQ(again->known, 2);
  EXPECT_EQ(again->tuned, 0);
  EXPECT_EQ(device.timings, timings);
}

TEST_F(GemmTuner, BuildsEachKernelOnceAndNothingFarAheadOfItsUse) {
  std::mutex mutex;
  std::map<std::string, int> built;
  compile_ = [&](const std::string& source, Inspect inspect) -> Result<Build> {
    std::lock_guard lock(mutex);
    if (inspect == Inspect::kNo) ++built[source];
    return Build{"cubin", {}};
  };
  FakeGemmDevice device;
  Journal own = journal();
  Tuner tuner(device, compile_, own, sink_);
  const auto report = tuner.run({.sizes = all_sizes(), .seconds = 1e-9}, {});
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_EQ(report->tuned, 0);
  const auto slice = parse_sizes("slice");
  ASSERT_EQ(tuner.run({.sizes = {slice->begin(), slice->begin() + 20}}, {})->tuned, 20);
  EXPECT_GT(built.size(), 100U);
  for (const auto& [source, times] : built) EXPECT_EQ(times, 1) << source;
}

TEST_F(GemmTuner, WhatItsTimeAllowsIsSpreadOverAllSizes) {
  std::vector<Size> sizes;
  for (std::int64_t i = 1; i <= 64; ++i) sizes.push_back({64 * i, 64, 64});
  FakeGemmDevice device;
  CancelToken token;
  std::vector<Size> timed;
  device.on_time = [&](const Size& size) {
    if (std::find(timed.begin(), timed.end(), size) == timed.end()) timed.push_back(size);
    if (timed.size() == 8) token.cancel();
  };
  Journal own = journal();
  ASSERT_EQ(Tuner(device, compile_, own, sink_).run({.sizes = sizes}, token)->tuned, 8);
  std::set<std::int64_t> eighths;
  for (const Size& size : timed) eighths.insert((size.m / 64 - 1) / 8);
  EXPECT_EQ(eighths.size(), 8U);
}

TEST_F(GemmTuner, LeavesOutAKernelThatTookTheDeviceDown) {
  const std::string faulty = name_of(shortlist({Layout::kTN, kSize.m, kSize.n, kSize.k}, 132, 24)[0]);
  FakeGemmDevice device;
  device.faulty = {faulty};
  const auto report = tune({kSize}, device);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message, HasSubstr(faulty));
  FakeGemmDevice fresh;
  fresh.faulty = {faulty};
  EXPECT_EQ(tune({kSize}, fresh)->tuned, 1);
}

TEST_F(GemmTuner, GoesOnAfterAKernelThatCannotBeLaunched) {
  FakeGemmDevice device;
  device.unlaunchable = {name_of(shortlist({Layout::kTN, kSize.m, kSize.n, kSize.k}, 132, 24)[0])};
  EXPECT_EQ(tune({kSize}, device)->tuned, 1);
}

TEST_F(GemmTuner, UsesNoKernelThatSpillsOrSumsInFp16) {
  FakeGemmDevice device;
  compile_ = [](const std::string& source, Inspect) -> Result<Build> {
    if (source.find("DirectGemm") != source.npos)
      return Build{"cubin", {{"instructions", 9}, {"hmma_f16", 4}}};
    if (source.find("WgmmaGemm") != source.npos) return Build{"cubin", {{"spill_bytes", 8}}};
    return Build{"cubin", {{"instructions", 9}, {"hmma_f32", 4}}};
  };
  const auto report = tune({kSize}, device);
  ASSERT_TRUE(report.ok());
  EXPECT_GT(report->kernels_refused, 0);
  EXPECT_THAT(journal().choice(kSize)->kernel, testing::StartsWith("mma_"));
  const std::string text = read_file(path_).value();
  EXPECT_THAT(text, HasSubstr("tampered: the tensor cores sum in fp16"));
  EXPECT_THAT(text, HasSubstr("wrong_code: registers are spilled"));
}

TEST_F(GemmTuner, EachLayoutAndAccumulatorHasAJournalOfItsOwn) {
  const Track track{Layout::kNT, true};
  const Size size{1024, 1024, 1024};
  FakeGemmDevice device;
  ASSERT_EQ(tune({size}, device, track)->tuned, 1);
  EXPECT_EQ(device.vendors_of, track);
  EXPECT_EQ(journal().track(), track);
  Plan plan;
  ASSERT_TRUE(plan_of(journal().choice(size)->kernel, plan));
  EXPECT_EQ(plan.layout, Layout::kNT);
  EXPECT_TRUE(plan.half_sums);
  EXPECT_THAT(tune({size}, device).error().message, HasSubstr("nt_fp16, not for tn_fp32"));
  const auto rows = bench(device, compile_, journal(), {.sizes = {size}}, sink_, {});
  ASSERT_TRUE(rows.ok()) << rows.error().to_string();
  EXPECT_GT(rows->rows[0].warm.lt_heuristic, 0);
}

TEST_F(GemmTuner, NothingThatSumsInFp16IsTriedOrMeasuredForFp32) {
  for (const Layout layout : {Layout::kTN, Layout::kNN})
    for (const Plan& plan : ranked_plans({layout, 1024, 1024, 1024}, 132)) ASSERT_FALSE(plan.half_sums);
  FakeGemmDevice device;
  {
    Journal own = journal();
    ASSERT_TRUE(own.begin(device.facts(), {}).ok());
    ASSERT_TRUE(own.add(Choice{.size = kSize,
                               .kernel = "wgmma_tn_64x64x64_w1x1_g1_s6_c4_m1_n1_b0_o1_k0_half_vectors",
                               .lt = "lt_nn_0"})
                    .ok());
  }
  const auto rows = bench(device, compile_, journal(), {.sizes = {kSize}}, sink_, {});
  ASSERT_FALSE(rows.ok());
  EXPECT_THAT(rows.error().message, HasSubstr("no kernel for tn_fp32"));
}

TEST_F(GemmTuner, AJournalOfAnotherGpuIsRefused) {
  std::ofstream(path_) << R"({"what":"device","name":"another GPU"})"
                       << "\n";
  FakeGemmDevice device;
  EXPECT_THAT(tune({kSize}, device).error().message, HasSubstr("another GPU"));
}

TEST_F(GemmTuner, ACutLineIsDroppedAndAWrongOneNamed) {
  FakeGemmDevice device;
  ASSERT_TRUE(tune({kSize}, device).ok());
  const std::string whole = read_file(path_).value();
  std::ofstream(path_) << whole << R"({"what":"choi)";
  EXPECT_EQ(journal().choices().size(), 1u);
  EXPECT_EQ(read_file(path_).value(), whole);
  std::ofstream(path_) << whole << "{}\n" << whole;
  const auto wrong = Journal::open(path_);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().where.line, std::count(whole.begin(), whole.end(), '\n') + 1);
}

TEST_F(GemmTuner, AKernelThatRanWhenTheProcessDiedIsNotTriedAgain) {
  std::ofstream(path_) << R"({"what":"start","kernel":"k"})"
                       << "\n";
  EXPECT_TRUE(journal().is_bad("k"));
  std::ofstream(path_, std::ios::app) << R"({"what":"end"})"
                                      << "\n";
  EXPECT_FALSE(journal().is_bad("k"));
}

TEST_F(GemmTuner, ExplainsWhatItFound) {
  FakeGemmDevice device;
  ASSERT_TRUE(tune({kSize, {64, 64, 64}, {1024, 1024, 1024}, {4096, 4096, 4096}}, device).ok());
  const std::string text = explain(journal(), 132);
  EXPECT_THAT(text, HasSubstr("| E | "));
  EXPECT_THAT(text, HasSubstr("| blocks that share K | "));
  EXPECT_THAT(text, HasSubstr("| wgmma | "));

  const std::string order = ranking(journal(), 132, 3);
  EXPECT_THAT(order, testing::StartsWith("m,n,k,list,rank,kernel\n"));
  const Size first = journal().choices()[0].size;
  const Plan best = ranked_plans({Layout::kTN, first.m, first.n, first.k}, 132)[0];
  EXPECT_THAT(order,
              HasSubstr(fmt::format("{},{},{},ranked,1,{}\n", first.m, first.n, first.k, name_of(best))));
  EXPECT_THAT(order, HasSubstr(",shortlist,3,"));
  EXPECT_THAT(order, testing::Not(HasSubstr(",4,")));
}

}  // namespace
}  // namespace lathe::gemm
