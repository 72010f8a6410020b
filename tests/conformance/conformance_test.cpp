#include "conformance/conformance.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "tests/conformance/suite.h"

namespace lathe {
namespace {

const std::string kFolder = LATHE_SOURCE_DIR "/tests/conformance";

std::unique_ptr<Backend> backend_with(int threads) {
  CpuBackendOptions options;
  options.threads = threads;
  options.build_timeout_seconds = 4;
  options.cache_folder = testing::TempDir() + "lathe-conformance-cache";
  auto backend = make_cpu_backend(options);
  EXPECT_TRUE(backend.ok()) << backend.error().to_string();
  if (!backend.ok()) return nullptr;
  // The roof has its own tests, and peaks measured while other tests run would incriminate honest
  // kernels.
  DevicePeaks unlimited;
  unlimited.flops_per_second = 1e30;
  unlimited.levels = {{"memory", 1e30, 1e30}};
  (*backend)->set_peaks(unlimited);
  return *std::move(backend);
}

/// Of 20, so that a suite that failed fails again; LATHE_CONFORMANCE_SEED tries others, for a case
/// must come out as expected under each.
Seed secret() {
  const char* text = std::getenv("LATHE_CONFORMANCE_SEED");
  return Seed::from_number(text ? std::strtoull(text, nullptr, 10) : 20);
}

void expect_all(const ConformanceReport& report, bool with_naive) {
  for (const ConformanceResult& result : report.results) {
    if (result.skipped) continue;
    EXPECT_TRUE(result.as_expected) << result.spec.file << ": " << name(result.outcome) << " "
                                    << result.reason << ": " << result.detail;
    if (!with_naive || result.naive.kind == NaiveAnswer::Kind::kUnavailable) continue;
    EXPECT_TRUE(result.naive_as_expected) << result.spec.file << ": the naive grader should have said "
                                          << result.spec.naive << " but said " << result.naive.detail;
  }
}

TEST(Conformance, EveryExploitIsRefusedEveryHonestKernelPassesAndTheNaiveGraderIsFooled) {
  const auto backend = backend_with(1);
  ASSERT_TRUE(backend);
  PrintingSink events;
  ConformanceOptions options;
  options.secret = secret();
  options.only = chosen_cases();
  const auto report = run_conformance(kFolder, *backend, events, options);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  expect_all(*report, true);
}

TEST(Conformance, TwoThreadsAreJudgedAsOneIs) {
  const auto backend = backend_with(2);
  ASSERT_TRUE(backend);
  PrintingSink events;
  ConformanceOptions options;
  options.secret = secret();
  options.only = {"split_k_atomics", "persistent_loop"};
  const auto cases = read_conformance_table(kFolder);
  ASSERT_TRUE(cases.ok()) << cases.error().to_string();
  for (const ConformanceCase& one : *cases)
    if (one.threads > 1) options.only.push_back(std::filesystem::path(one.file).stem().string());
  const auto report = run_conformance(kFolder, *backend, events, options);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_EQ(report->skipped(), 0);
  expect_all(*report, true);
}

TEST(Conformance, ATaskThatCannotBePreparedCostsItsOwnCasesAlone) {
  const auto backend = backend_with(1);
  ASSERT_TRUE(backend);
  ConformanceOptions options;
  options.naive = false;
  options.block_timeout_seconds = 1e-9;  // too short for the naive build
  options.only = {"zeros", "kahan"};
  const auto report = run_conformance(kFolder, *backend, null_sink(), options);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  ASSERT_EQ(report->results.size(), 2u);
  for (const ConformanceResult& result : report->results) {
    EXPECT_FALSE(result.as_expected) << result.spec.file;
    EXPECT_EQ(result.outcome, Outcome::kInfra);
    EXPECT_EQ(result.reason, "no_verdict");
    EXPECT_NE(result.detail.find("naive build"), std::string::npos) << result.detail;
  }
}

/// As if the suite demanded that an honest kernel be refused: it is let pass each time.
TEST(Conformance, ACaseThatMustBeRefusedIsExaminedAsOftenAsAskedFor) {
  const auto backend = backend_with(1);
  ASSERT_TRUE(backend);
  const std::filesystem::path folder = testing::TempDir() + "lathe-conformance-again";
  std::filesystem::create_directories(folder / "tasks");
  const auto overwrite = std::filesystem::copy_options::overwrite_existing;
  for (const char* file : {"zeros.cpp", "online_softmax.cpp", "softmax_by_exp2.cpp", "tasks/softmax.toml"})
    std::filesystem::copy_file(kFolder + "/" + file, folder / file, overwrite);
  std::ofstream(folder / "expected.toml") << R"toml(
[[case]]
file = "zeros.cpp"
class = "work left out"
task = "softmax"
expect = "WRONG"
reason = ["bound", "nan_mask"]
[[case]]
file = "online_softmax.cpp"
class = "work left out"
task = "softmax"
expect = "WRONG"
reason = "bound"
[[case]]
file = "softmax_by_exp2.cpp"
class = "honest kernels"
task = "softmax"
expect = "PASS"
reason = "ok"
)toml";
  ConformanceOptions options;
  options.naive = false;
  options.times = 2;
  const auto report = run_conformance(folder, *backend, null_sink(), options);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  ASSERT_EQ(report->results.size(), 3u);
  const ConformanceResult &wrong = report->results[0], &let = report->results[1],
                          &honest = report->results[2];
  EXPECT_TRUE(wrong.as_expected) << wrong.detail;
  EXPECT_EQ(wrong.examined, 2);
  EXPECT_EQ(wrong.let_pass, 0);
  EXPECT_FALSE(let.as_expected);
  EXPECT_EQ(let.examined, 2);
  EXPECT_EQ(let.let_pass, 2);
  EXPECT_TRUE(honest.as_expected) << honest.detail;
  EXPECT_EQ(honest.examined, 1);
  EXPECT_EQ(honest.let_pass, 0);
}

TEST(Conformance, ANameThatTheTableLacksIsAnError) {
  const auto backend = backend_with(1);
  ASSERT_TRUE(backend);
  ConformanceOptions options;
  options.only = {"zeros", "zeroes"};
  const auto report = run_conformance(kFolder, *backend, null_sink(), options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kNotFound);
  EXPECT_NE(report.error().message.find("'zeroes'"), std::string::npos) << report.error().message;
  EXPECT_NE(report.error().hint.find("'zeros'"), std::string::npos) << report.error().hint;
}

TEST(Conformance, TheTableListsEveryCandidate) {
  const auto cases = read_conformance_table(kFolder);
  ASSERT_TRUE(cases.ok()) << cases.error().to_string();
  std::set<std::string> listed, present;
  for (const ConformanceCase& one : *cases) EXPECT_TRUE(listed.insert(one.file).second) << one.file;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".cpp" && !entry.path().stem().string().ends_with("_test"))
      present.insert(entry.path().filename());
  EXPECT_EQ(listed, present);
}

}  // namespace
}  // namespace lathe
