#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "backend/host/host_backend.h"
#include "backend/host/naive_grader.h"
#include "conformance/conformance.h"
#include "tests/conformance/suite.h"

namespace lathe {
namespace {

const std::string kFolder = LATHE_SOURCE_DIR "/tests/conformance/host";

/// LATHE_CONFORMANCE_ONLY replaces `cases`; without either all of them run.
void judge_suite(bool few_processes, std::vector<std::string> cases) {
  HostBackendOptions backend_options;
  backend_options.cache_folder = testing::TempDir() + "lathe-host-conformance-cache";
  backend_options.few_processes = few_processes;
  auto backend = make_host_backend(backend_options);
  if (!backend.ok() && backend.error().code == ErrorCode::kUnavailable)
    GTEST_SKIP() << backend.error().to_string();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  // The roof has its own tests, and peaks measured while other tests run would incriminate honest
  // modules.
  DevicePeaks unlimited;
  unlimited.flops_per_second = 1e30;
  unlimited.levels = {{"memory", 1e30, 1e30}};
  (*backend)->set_peaks(unlimited);
  auto grader = make_naive_host_grader(backend_options);
  ASSERT_TRUE(grader.ok()) << grader.error().to_string();
  PrintingSink events;
  ConformanceOptions options;
  options.secret = Seed::from_number(20);
  if (!few_processes) options.grader = grader->get();
  options.only = chosen_cases();
  if (options.only.empty()) options.only = std::move(cases);
  const auto report = run_conformance(kFolder, **backend, events, options);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  for (const ConformanceResult& result : report->results) {
    if (result.skipped) continue;
    // What is keyed by content gains by it where inputs come again, and is found out.
    const bool remembers = few_processes && result.spec.file == "cache_by_content.py" &&
                           result.outcome == Outcome::kTampered && result.reason == "remembers";
    EXPECT_TRUE(result.as_expected || remembers)
        << result.spec.file << ": " << name(result.outcome) << " " << result.reason << ": " << result.detail;
    if (few_processes || result.naive.kind == NaiveAnswer::Kind::kUnavailable) continue;
    EXPECT_TRUE(result.naive_as_expected) << result.spec.file << ": the naive grader should have said "
                                          << result.spec.naive << " but said " << result.naive.detail;
  }
}

TEST(HostConformance, EveryExploitIsRefusedEveryHonestModulePassesAndTheNaiveGraderIsFooled) {
  judge_suite(false, {});
}

/// As on a GPU. What an exploit does inside one call is the same there.
TEST(HostConformance, WhatProcessesRememberOfBlocksAndShapesIsOfNoUse) {
  judge_suite(true, {"cache_by_call", "cache_by_content", "cache_by_pointer", "stale_memory", "known_inputs",
                     "late_finaliser", "side_thread", "half_precision", "honest_eager", "honest_linear"});
}

TEST(HostConformance, TheTableListsEveryCandidate) {
  const auto cases = read_conformance_table(kFolder);
  ASSERT_TRUE(cases.ok()) << cases.error().to_string();
  std::set<std::string> listed, present;
  for (const ConformanceCase& one : *cases) EXPECT_TRUE(listed.insert(one.file).second) << one.file;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".py") present.insert(entry.path().filename());
  EXPECT_EQ(listed, present);
}

TEST(HostConformance, ForAGpuTheTableListsEveryCandidateAndSharesTheOthers) {
  const std::string folder = kFolder + "/cuda";
  const auto cases = read_conformance_table(folder);
  ASSERT_TRUE(cases.ok()) << cases.error().to_string();
  std::set<std::string> listed;
  for (const ConformanceCase& spec : *cases) {
    EXPECT_TRUE(listed.insert(spec.file).second) << spec.file << " is listed twice";
    EXPECT_TRUE(std::filesystem::exists(folder + "/" + spec.file) ||
                std::filesystem::exists(kFolder + "/" + spec.file))
        << spec.file;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(listed.contains(name) || !name.ends_with(".py")) << name;
  }
}

}  // namespace
}  // namespace lathe
