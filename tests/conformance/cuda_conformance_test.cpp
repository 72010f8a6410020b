// The suite's GPU part. Its build refusals are tried wherever there is NVRTC, the rest on a GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "backend/cuda/broker/cubin_image.h"
#include "backend/cuda/broker/cuda_backend.h"
#include "backend/cuda/broker/naive_grader.h"
#include "backend/cuda/runner/nvrtc.h"
#include "base/fd.h"
#include "conformance/conformance.h"
#include "tests/backend/cuda/without_gpu.h"
#include "tests/conformance/suite.h"

namespace lathe {
namespace {

const std::string kFolder = LATHE_SOURCE_DIR "/tests/conformance/cuda";

TEST(CudaConformance, TheTableListsEveryCandidate) {
  const auto cases = read_conformance_table(kFolder);
  ASSERT_TRUE(cases.ok()) << cases.error().to_string();
  std::set<std::string> listed, present;
  for (const ConformanceCase& one : *cases) EXPECT_TRUE(listed.insert(one.file).second) << one.file;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".cu") present.insert(entry.path().filename());
  EXPECT_EQ(listed, present);
}

TEST(CudaConformance, CubinsAreRefusedOrNotAsTheTableSays) {
  const auto nvrtc = cuda::Nvrtc::open();
  if (!nvrtc.ok()) GTEST_SKIP() << "no NVRTC: " << nvrtc.error().to_string();
  const auto cases = read_conformance_table(kFolder);
  ASSERT_TRUE(cases.ok());
  const std::set<std::string> refused = {"writable_state", "forbidden_symbol", "compile_error"};
  for (const ConformanceCase& one : *cases) {
    if (one.naive == "harmed" && one.expect[0] == Outcome::kBuildFailed) continue;  // does not end
    if (one.file == "include_host.cu") continue;                                    // needs the jail
    SCOPED_TRACE(one.file);
    const auto text = read_file(kFolder + "/" + one.file);
    ASSERT_TRUE(text.ok());
    const auto compiled = nvrtc->compile(*text, {"-arch=sm_90a", "-I" LATHE_SOURCE_DIR "/device"});
    ASSERT_TRUE(compiled.ok) << compiled.log;
    const std::string reason = cuda::check_cubin(compiled.cubin).reason;
    EXPECT_EQ(reason, refused.contains(one.reasons[0]) ? one.reasons[0] : "");
  }
}

TEST(CudaConformance, EveryExploitIsRefusedEveryHonestKernelPassesAndTheNaiveGraderIsFooled) {
  const auto backend = make_cuda_backend({});
  if (!backend.ok()) LATHE_WITHOUT_GPU(backend.error().to_string());
  const auto grader = make_naive_cuda_grader({});
  ASSERT_TRUE(grader.ok()) << grader.error().to_string();
  PrintingSink events;
  ConformanceOptions options;
  options.secret = Seed::from_number(20);
  options.grader = grader->get();
  const auto report = run_conformance(kFolder, **backend, events, options);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  for (const ConformanceResult& result : report->results) {
    EXPECT_TRUE(result.as_expected) << result.spec.file << ": " << name(result.outcome) << " "
                                    << result.reason << ": " << result.detail;
    EXPECT_TRUE(result.naive_as_expected) << result.spec.file << ": the naive grader should have said "
                                          << result.spec.naive << " but said " << result.naive.detail;
  }
  EXPECT_LT(report->worst_recovery_seconds(), 2);
}

}  // namespace
}  // namespace lathe
