// Every group that a GPU's library takes, on a real GPU, within the bound of every distribution.

#include <gmock/gmock.h>

#include "backend/cuda/broker/cuda_backend.h"
#include "baseline/compose.h"
#include "task/sample.h"
#include "tests/backend/cuda/without_gpu.h"
#include "tests/baseline/graph_case.h"

namespace lathe {
namespace {

std::vector<GraphCase> all_cases() {
  std::vector<GraphCase> cases = vendor_cases();
  cases.insert(cases.end(), op_cases().begin(), op_cases().end());
  cases.push_back({"conv_bias_relu",
                   {"x: N, C, H, W", "w: O, C, 3, 3", "b: O"},
                   "h = conv2d(x, w, padding = 1)\ng = bias_add(h, b, axis = 1)\ny = relu(g)",
                   "N = 2, C = 16, H = 13, W = 11, O = 32"});
  cases.push_back({"conv_bias_alone",
                   {"x: N, C, H, W", "w: O, C, 3, 3", "b: O"},
                   "y = conv2d(x, w, b, padding = 1)",
                   "N = 1, C = 16, H = 14, W = 14, O = 32"});
  for (const std::string dtype : {"fp16", "bf16", "fp64"})
    cases.push_back({"batched_" + dtype,
                     {"x: B, M, K; dtype = \"" + dtype + "\"", "w: B, N, K; dtype = \"" + dtype + "\""},
                     "y = matmul(x, w, transpose_b = true)",
                     "B = 3, M = 33, K = 65, N = 47"});
  cases.push_back({"to_fp32",
                   {"x: M, K; dtype = \"bf16\"", "w: K, N; dtype = \"bf16\""},
                   "y = matmul(x, w, out_dtype = \"fp32\")",
                   "M = 33, K = 65, N = 47"});
  cases.push_back({"softmax_long", {"x: M, N"}, "y = softmax(x)", "M = 70, N = 3000"});
  cases.push_back(
      {"log_softmax_middle", {"x: A, B, C"}, "y = log_softmax(x, axis = 1)", "A = 3, B = 70, C = 9"});
  return cases;
}

class CudaVendorBuild : public testing::TestWithParam<std::string_view> {
 protected:
  static void SetUpTestSuite() {
    CudaBackendOptions options;
    options.cache_folder = testing::TempDir() + "lathe-cuda-cache";
    auto made = make_cuda_backend(options);
    if (made.ok())
      backend_ = std::move(*made).release();
    else
      missing_ = made.error().to_string();
  }
  static void TearDownTestSuite() { delete backend_; }
  void SetUp() override {
    if (!backend_) LATHE_WITHOUT_GPU(missing_);
  }

  static std::shared_ptr<const Workload> workload_of(const TaskSpec& task) {
    Workload workload;
    workload.task = *lathe::bind(task, task.shapes[0].dims);
    const auto reference = make_reference(task);
    for (const Distribution distribution : all_distributions()) {
      auto sample = draw_sample(**reference, workload.task, distribution, Seed::from_number(3));
      if (*sample)
        workload.trials.push_back(
            {distribution, std::move((*sample)->inputs), std::move((*sample)->expected)});
    }
    auto prepared = backend_->prepare(std::move(workload));
    EXPECT_TRUE(prepared.ok()) << prepared.error().to_string();
    return *std::move(prepared);
  }

  static Backend* backend_;
  static std::string missing_;
};
Backend* CudaVendorBuild::backend_ = nullptr;
std::string CudaVendorBuild::missing_;

TEST_P(CudaVendorBuild, IsWithinTheBoundForEveryGroupAndDistribution) {
  int tried = 0;
  for (const GraphCase& graph_case : all_cases()) {
    SCOPED_TRACE(graph_case.name);
    const TaskSpec task = make_task(graph_case);
    const auto groups = vendor_groups(task, GetParam());
    if (groups.empty()) continue;
    const auto candidate = compose_candidate(task, groups, std::string(GetParam()), Dialect::kCuda);
    ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
    const auto workload = workload_of(task);
    const auto built = backend_->build(*candidate, workload->task);
    ASSERT_TRUE(built.ok() && built->ok);
    const auto session = backend_->open(*candidate, built->artifact, workload);
    if (!session.ok() && session.error().code == ErrorCode::kUnavailable && tried == 0)
      GTEST_SKIP() << "skipped: " << session.error().to_string();
    ASSERT_TRUE(session.ok()) << session.error().to_string();
    BlockRequest request;
    for (std::uint32_t trial = 0; trial < workload->trials.size(); ++trial) request.trials.push_back(trial);
    request.timeout_seconds = 20;
    request.secret = 7;
    const BlockOutcome outcome = (*session)->run(request);
    EXPECT_EQ(outcome.status, BlockStatus::kOk) << outcome.reason << outcome.detail;
    for (std::size_t trial = 0; trial < outcome.outputs.size(); ++trial)
      for (const Comparison& comparison : outcome.outputs[trial])
        EXPECT_TRUE(comparison.pass) << name(workload->trials[trial].distribution) << ": "
                                     << comparison.reason << " at " << comparison.first_bad << ": got "
                                     << comparison.got << ", want " << comparison.want << ", ratio "
                                     << comparison.worst_ratio;
    ++tried;
  }
  EXPECT_GT(tried, 5);
}

INSTANTIATE_TEST_SUITE_P(Libraries, CudaVendorBuild, testing::Values("cublas", "cudnn"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace lathe
