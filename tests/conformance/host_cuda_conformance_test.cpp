#include <gtest/gtest.h>

#include "backend/cuda/broker/window_client.h"
#include "backend/host/host_backend.h"
#include "conformance/conformance.h"
#include "tests/backend/cuda/without_gpu.h"
#include "tests/conformance/suite.h"

namespace lathe {
namespace {

/// Minutes: LATHE_PYTHON names an interpreter with a PyTorch for CUDA and Triton.
TEST(HostCudaConformance, EveryExploitIsRefusedAndEveryHonestModulePasses) {
  HostBackendOptions backend_options;
  backend_options.cache_folder = testing::TempDir() + "lathe-host-cuda-conformance-cache";
  auto gpu = make_host_gpu({});
  if (!gpu.ok()) LATHE_WITHOUT_GPU(gpu.error().to_string());
  backend_options.gpu = *std::move(gpu);
  const auto backend = make_host_backend(backend_options);
  if (!backend.ok() && backend.error().code == ErrorCode::kUnavailable)
    GTEST_SKIP() << backend.error().to_string();
  ASSERT_TRUE(backend.ok()) << backend.error().to_string();
  PrintingSink events;
  ConformanceOptions options;
  options.secret = Seed::from_number(20);
  const auto report =
      run_conformance(LATHE_SOURCE_DIR "/tests/conformance/host/cuda", **backend, events, options);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  for (const ConformanceResult& result : report->results)
    EXPECT_TRUE(result.as_expected || result.skipped)
        << result.spec.file << ": " << name(result.outcome) << " " << result.reason << ": " << result.detail;
}

}  // namespace
}  // namespace lathe
