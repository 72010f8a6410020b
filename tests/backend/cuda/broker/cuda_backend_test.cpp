// What a kernel on a real GPU can do to its runner, and what the broker says of it. Needs a GPU.

#include "backend/cuda/broker/cuda_backend.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "base/clock.h"
#include "base/fd.h"
#include "candidate/candidate.h"
#include "task/spec.h"
#include "tests/backend/cuda/without_gpu.h"

namespace lathe {
namespace {

using testing::AnyOf;

constexpr const char* kDoubleTask = R"(
name = "twice"
dims = ["n"]
[[tensor]]
name = "x"
shape = ["n"]
[[node]]
out = "y"
op = "add"
in = ["x", "x"]
[[output]]
name = "y"
[[shape]]
name = "small"
n = 100000
)";

/// How the one launch of a candidate differs from the ordinary one.
struct Launch {
  std::string grid = "cdiv(n, 256)", block = "256", more = "", before = "";
};

std::string candidate_text(const std::string& body, const Launch& launch) {
  return "/*lathe\n[[launch]]\nkernel = \"f\"\ngrid = [\"" + launch.grid + "\"]\nblock = [" + launch.block +
         "]\nargs = [\"x\", \"y\", \"n\"]\n" + launch.more + "*/\n" + launch.before +
         "extern \"C\" __global__ void f(const float* x, float* y, long long n) {\n"
         "  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n" +
         body + "\n}\n";
}

/// This program's child that owns the GPU's memory.
pid_t keeper() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string folder = entry.path().string();
    const auto line = read_file(folder + "/cmdline"), status = read_file(folder + "/status");
    const bool keeps = line.ok() && line->find("lathe-cuda-runner") != std::string::npos &&
                       line->ends_with(std::string("keep") + '\0');
    if (keeps && status.ok() &&
        status->find("PPid:\t" + std::to_string(::getpid()) + "\n") != std::string::npos)
      return std::stoi(entry.path().filename().string());
  }
  return -1;
}

constexpr const char* kRight = "if (i < n) y[i] = x[i] + x[i];";

/// One backend for all cases: making it takes half a second.
class CudaBackendTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    CudaBackendOptions options;
    options.cache_folder = testing::TempDir() + "lathe-cuda-cache";
    auto made = make_cuda_backend(options);
    if (!made.ok()) {
      missing_ = made.error().to_string();
      return;
    }
    backend_ = std::move(*made).release();
    auto task = parse_task(kDoubleTask, "double.toml");
    ASSERT_TRUE(task.ok()) << task.error().to_string();
    task_ = new TaskSpec(*task);
    const auto bound = lathe::bind(*task_, task_->shapes[0].dims);
    ASSERT_TRUE(bound.ok());
    const auto reference = make_reference(*task_);
    ASSERT_TRUE(reference.ok());
    Workload workload;
    workload.task = *bound;
    for (std::uint64_t t = 0; t < 4; ++t) {
      Trial trial;
      trial.inputs = generate_inputs(*bound, Distribution::kNormal, Seed::from_number(t));
      auto expected = (*reference)->evaluate(*bound, trial.inputs, {});
      ASSERT_TRUE(expected.ok());
      trial.expected = *std::move(expected);
      workload.trials.push_back(std::move(trial));
    }
    auto prepared = backend_->prepare(std::move(workload));
    ASSERT_TRUE(prepared.ok()) << prepared.error().to_string();
    workload_ = new std::shared_ptr<const Workload>(*prepared);
  }
  static void TearDownTestSuite() {
    delete workload_;
    delete task_;
    delete backend_;
  }
  void SetUp() override {
    if (!backend_) LATHE_WITHOUT_GPU(missing_);
  }

  struct Opened {
    std::string reason;  ///< why there is no session
    std::unique_ptr<Session> session;
  };
  static Opened open(const std::string& body, const Launch& launch) {
    return open_text(candidate_text(body, launch));
  }
  static Opened open_text(const std::string& text) {
    const auto candidate = parse_candidate(text, "test");
    if (!candidate.ok()) return {candidate.error().to_string(), nullptr};
    const auto built = backend_->build(*candidate, (*workload_)->task);
    if (!built.ok()) return {built.error().to_string(), nullptr};
    if (!built->ok) return {built->reason + ": " + built->facts.log, nullptr};
    auto session = backend_->open(*candidate, built->artifact, *workload_);
    if (const Error* const error = session.ok() ? nullptr : &session.error())
      return {error->reason.empty() ? error->message : error->reason, nullptr};
    return {"", *std::move(session)};
  }

  static BlockOutcome run(Session& session, double timeout_seconds = 5) {
    BlockRequest request;
    request.trials = {0, 1, 2, 3};
    request.timeout_seconds = timeout_seconds;
    request.secret = 7;
    return session.run(request);
  }

  /// The reason code of one block; "ok", or "wrong" where the outputs are.
  static std::string try_out(const std::string& body, const Launch& launch = {},
                             double timeout_seconds = 10) {
    return reason_of(open(body, launch), timeout_seconds);
  }
  static std::string reason_of(const Opened& opened, double timeout_seconds = 10) {
    if (!opened.session) return opened.reason;
    const BlockOutcome outcome = run(*opened.session, timeout_seconds);
    if (outcome.status != BlockStatus::kOk) return outcome.reason;
    for (const auto& trial : outcome.outputs)
      for (const Comparison& comparison : trial)
        if (!comparison.pass) return "wrong";
    return "ok";
  }

  static Backend* backend_;
  static TaskSpec* task_;
  static std::shared_ptr<const Workload>* workload_;
  static std::string missing_;
};
Backend* CudaBackendTest::backend_ = nullptr;
TaskSpec* CudaBackendTest::task_ = nullptr;
std::shared_ptr<const Workload>* CudaBackendTest::workload_ = nullptr;
std::string CudaBackendTest::missing_;

TEST_F(CudaBackendTest, ARightKernelPassesAndTakesTime) {
  const Opened opened = open(kRight, {});
  ASSERT_TRUE(opened.session) << opened.reason;
  const BlockOutcome outcome = run(*opened.session);
  ASSERT_EQ(outcome.status, BlockStatus::kOk) << outcome.reason << outcome.detail;
  ASSERT_EQ(outcome.outputs.size(), 4U);
  for (const auto& trial : outcome.outputs) EXPECT_TRUE(trial.at(0).pass);
  EXPECT_GT(outcome.wall_ns, 2000);
}

TEST_F(CudaBackendTest, WhatIsNotComputedIsWrong) {
  EXPECT_EQ(try_out(""), "wrong");
  EXPECT_EQ(try_out("if (i < n - 1) y[i] = x[i] + x[i];"), "wrong");
  EXPECT_EQ(try_out("if (i < n) y[i] = x[i];"), "wrong");
}

TEST_F(CudaBackendTest, WritesBeyondTheOutputAreSeen) {
  EXPECT_EQ(try_out(std::string(kRight) + "if (i == 0) y[n] = 1;"), "oob_write");
  EXPECT_EQ(try_out(std::string(kRight) + "if (i == 0) y[-1] = 1;"), "oob_write");
  EXPECT_EQ(try_out(std::string(kRight) + "if (i == 0) y[-16000] = 1;"), "oob_write");
  EXPECT_EQ(try_out(std::string(kRight) + "if (i == 0) y[n + 64] = 1;"), "illegal_address");
}

TEST_F(CudaBackendTest, ReadsBeyondAnInputFault) {
  EXPECT_EQ(try_out("if (i < n) y[i] = x[i] + x[i + 128];"), "illegal_address");
}

TEST_F(CudaBackendTest, InputsCannotBeWritten) {
  EXPECT_EQ(try_out(std::string(kRight) + "if (i == 0) ((float*)x)[0] = 1;"), "illegal_address");
}

/// The largest difference of the device's product from the definition, over shapes that no tile
/// divides.
template <class T>
double product_error(ProductEngine& engine, bool a_transposed, bool b_transposed) {
  double worst = 0;
  const std::array<std::size_t, 3> shapes[] = {{1, 1, 1}, {130, 257, 19}, {300, 7, 1000}, {64, 128, 16}};
  for (const auto& [m, n, k] : shapes) {
    std::vector<T> a(m * k), b(k * n), c(m * n, T(-1));
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(static_cast<int>(i * 7 % 17) - 8);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(static_cast<int>(i * 5 % 13) - 6);
    const MatrixView<T> left = a_transposed ? MatrixView<T>{a.data(), 1, m} : MatrixView<T>{a.data(), k, 1};
    const MatrixView<T> right = b_transposed ? MatrixView<T>{b.data(), 1, k} : MatrixView<T>{b.data(), n, 1};
    const Status done = engine.multiply(MatrixProduct<T>{m, n, k, left, right, c.data()});
    if (!done.ok()) return 1e300;
    for (std::size_t i = 0; i < m * n; ++i) {
      double want = 0;
      for (std::size_t p = 0; p < k; ++p)
        want += static_cast<double>(left.data[i / n * left.row_stride + p * left.column_stride]) *
                static_cast<double>(right.data[p * right.row_stride + i % n * right.column_stride]);
      worst = std::max(worst, std::fabs(static_cast<double>(c[i]) - want));
    }
  }
  return worst;
}

TEST_F(CudaBackendTest, ReferencesProductsAreExactOnSmallIntegers) {
  ASSERT_NE(backend_->products(), nullptr);
  for (const bool a_transposed : {false, true})
    for (const bool b_transposed : {false, true}) {
      EXPECT_EQ(product_error<double>(*backend_->products(), a_transposed, b_transposed), 0);
      EXPECT_EQ(product_error<float>(*backend_->products(), a_transposed, b_transposed), 0);
    }
}

/// The same of a gathered product whose images overlap in no tile's multiple.
template <class T>
double gathered_error(ProductEngine& engine) {
  const std::size_t m = 130, images = 3, an_image = 4000;
  std::vector<std::int64_t> rows(37), columns(301);
  for (std::size_t p = 0; p < rows.size(); ++p) rows[p] = static_cast<std::int64_t>(p * 53 % 1999);
  for (std::size_t j = 0; j < columns.size(); ++j) columns[j] = static_cast<std::int64_t>(j * 17 % 1999);
  std::vector<T> a(m * rows.size()), x(images * an_image), c(images * m * columns.size(), T(-1));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(static_cast<int>(i * 7 % 17) - 8);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(static_cast<int>(i * 5 % 13) - 6);
  if (!engine.multiply(GatheredProduct<T>{m, a.data(), x, images, rows, columns, c.data()}).ok())
    return 1e300;
  double worst = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const std::size_t row = i / columns.size() % m, image = i / columns.size() / m;
    double want = 0;
    for (std::size_t p = 0; p < rows.size(); ++p)
      want += static_cast<double>(a[row * rows.size() + p]) *
              static_cast<double>(
                  x[image * an_image + static_cast<std::size_t>(rows[p] + columns[i % columns.size()])]);
    worst = std::max(worst, std::fabs(static_cast<double>(c[i]) - want));
  }
  return worst;
}

TEST_F(CudaBackendTest, ReferencesConvolutionsAreExactOnSmallIntegers) {
  EXPECT_EQ(gathered_error<double>(*backend_->products()), 0);
  EXPECT_EQ(gathered_error<float>(*backend_->products()), 0);
}

TEST_F(CudaBackendTest, AFaultCostsTheOneBlockOnly) {
  const Opened bad = open("y[n + 100000] = 1;", {});
  ASSERT_TRUE(bad.session) << bad.reason;
  EXPECT_EQ(run(*bad.session).reason, "illegal_address");
  EXPECT_EQ(run(*bad.session).reason, "illegal_address");  // in a launcher that replaced the first
  EXPECT_EQ(try_out(kRight), "ok");
}

TEST_F(CudaBackendTest, AKernelThatHangsTimesOutAndIsGone) {
  EXPECT_EQ(try_out("while (((volatile const float*)x)[0] != 12345.0f) {}", {}, 0.5), "timeout");
  const auto begin = steady_clock().now_ns();
  EXPECT_EQ(try_out(kRight), "ok");
  std::printf("the next candidate ran %.2f s after a hang\n",
              static_cast<double>(steady_clock().now_ns() - begin) * 1e-9);
}

TEST_F(CudaBackendTest, ALostKeeperIsReplacedAndNothingElseIsLost) {
  const Opened opened = open(kRight, {});
  ASSERT_TRUE(opened.session) << opened.reason;
  ASSERT_EQ(run(*opened.session).status, BlockStatus::kOk);
  const pid_t lost = keeper();
  ASSERT_GT(lost, 0);
  ASSERT_EQ(::kill(lost, SIGKILL), 0);
  const auto begin = steady_clock().now_ns();
  const BlockOutcome again = run(*opened.session);
  std::printf("a keeper was replaced in %.2f s\n",
              static_cast<double>(steady_clock().now_ns() - begin) * 1e-9);
  ASSERT_EQ(again.status, BlockStatus::kOk) << again.reason << again.detail;
  EXPECT_TRUE(again.outputs.at(3).at(0).pass);
  EXPECT_EQ(try_out(kRight), "ok");
}

TEST_F(CudaBackendTest, LaunchesThatTheDriverRefusesSaySo) {
  EXPECT_EQ(try_out(kRight, {.block = "2048"}), "launch_refused");
  EXPECT_EQ(try_out(kRight, {.more = "smem = 1000000\n"}).substr(0, 13), "smem_overflow");
  EXPECT_EQ(try_out(kRight, {.grid = "0 * n"}).substr(0, 10), "bad_launch");
}

TEST_F(CudaBackendTest, SharedMemoryHoldsThePoisonAndNothingOfEarlierBlocks) {
  const std::string body =
      "  extern __shared__ volatile unsigned left[];\n"
      "  const bool clean = left[threadIdx.x * 180] == 0xffffffffu;\n"
      "  left[threadIdx.x * 180] = 1;\n"
      "  if (i < n) y[i] = clean ? x[i] + x[i] : 0;";
  const Opened opened = open(body, {.grid = "100", .more = "smem = 200000\n"});
  ASSERT_TRUE(opened.session) << opened.reason;
  BlockRequest request;
  request.trials = {0};
  for (int block = 0; block < 3; ++block) {
    const BlockOutcome outcome = opened.session->run(request);
    ASSERT_EQ(outcome.status, BlockStatus::kOk) << outcome.reason << outcome.detail;
    EXPECT_EQ(outcome.outputs.at(0).at(0).first_bad, 100 * 256) << "all that the 100 blocks wrote is right";
  }
}

TEST_F(CudaBackendTest, ConstantsAreAsTheyWereWrittenInEveryBlock) {
  const std::string body =
      "  unsigned long long at;\n"
      "  asm(\"cvta.const.u64 %0, %1;\" : \"=l\"(at) : \"l\"(__cvta_generic_to_constant(&state)));\n"
      "  const bool clean = *(volatile unsigned*)at == 7;\n"
      "  if (i < n) y[i] = clean ? x[i] + x[i] : 0;\n"
      "  if (i == n - 1) { for (int t = 0; t < 1000; ++t) __nanosleep(1000); *(volatile unsigned*)at = 8; }";
  const Opened opened = open(body, {.before = "__constant__ unsigned state = 7;\n"});
  ASSERT_TRUE(opened.session) << opened.reason;
  BlockRequest request;
  request.trials = {0};
  for (int block = 0; block < 2; ++block)
    EXPECT_TRUE(opened.session->run(request).outputs.at(0).at(0).pass) << block;
}

TEST_F(CudaBackendTest, MuchLocalMemoryIsRefused) {
  EXPECT_EQ(try_out("volatile float a[9000]; for (int k = 0; k < 9000; ++k) a[k] = k;" + std::string(kRight) +
                    "if (a[n % 9000] == 0.5f) y[0] = 0;")
                .substr(0, 12),
            "local_memory");
}

TEST_F(CudaBackendTest, AnArgumentTooManyIsAnError) {
  const auto text =
      "/*lathe\n[[launch]]\nkernel = \"f\"\ngrid = [1]\nblock = [32]\nargs = [\"x\", \"y\", \"n\"]\n*/\n"
      "extern \"C\" __global__ void f(const float* x, float* y) {}\n";
  const auto candidate = parse_candidate(text, "test");
  ASSERT_TRUE(candidate.ok());
  const auto built = backend_->build(*candidate, (*workload_)->task);
  ASSERT_TRUE(built.ok() && built->ok);
  const auto session = backend_->open(*candidate, built->artifact, *workload_);
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(session.error().reason, "bad_arguments");
}

/// Rows of eight elements through boxes of 32 rows; `box` says how the map of x is written.
std::string copy_by_boxes(const std::string& x_box, const std::string& factor) {
  return "/*lathe\n[[tma]]\nname = \"x_map\"\nbase = \"x\"\ndims = [8, \"n / 8\"]\n" + x_box +
         "\n[[tma]]\nname = \"y_map\"\nbase = \"y\"\ndims = [8, \"n / 8\"]\nbox = [8, 32]\n"
         "[[launch]]\nkernel = \"f\"\ngrid = [\"cdiv(n, 256)\"]\nblock = [256]\ncarveout = 50\n"
         "args = [\"x_map\", \"y_map\"]\n*/\n#include <lathe/cuda/tma.cuh>\nusing namespace lathe;\n" +
         R"(extern "C" __global__ void f(const __grid_constant__ TensorMap x_map,
                             const __grid_constant__ TensorMap y_map) {
  __shared__ __align__(128) float tile[256];
  __shared__ Barrier full;
  if (threadIdx.x == 0) init(full, 1);
  fence_barriers();
  __syncthreads();
  if (threadIdx.x == 0) {
    arrive_expecting(full, sizeof tile);
    tma_load(tile, x_map, 0, 32 * blockIdx.x, full);
  }
  wait(full, 0);
  tile[threadIdx.x] *= )" +
         factor + R"(;
  fence_async_copies();
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store(y_map, 0, 32 * blockIdx.x, tile);
    commit_stores();
    wait_stores<0>();
  }
})";
}

TEST_F(CudaBackendTest, TensorMapsBelongToTheirCall) {
  EXPECT_EQ(reason_of(open_text(copy_by_boxes("box = [8, 32]", "2"))), "ok");
  EXPECT_EQ(reason_of(open_text(copy_by_boxes("box = [8, 32]", "3"))), "wrong");
}

TEST_F(CudaBackendTest, AMapThatTheHardwareCannotUseIsRefused) {
  EXPECT_EQ(open_text(copy_by_boxes("box = [6, 32]", "2")).reason, "bad_tma");
  EXPECT_EQ(open_text(copy_by_boxes("strides = [64]\nbox = [8, 32]", "2")).reason, "bad_tma");
}

TEST_F(CudaBackendTest, LargeClustersMustBeAskedFor) {
  const std::string grid = "16 * cdiv(n, 4096)";
  EXPECT_EQ(try_out(kRight, {.grid = grid, .more = "cluster = [8]\n"}), "ok");
  EXPECT_EQ(try_out(kRight, {.grid = grid, .more = "cluster = [16]\n"}), "launch_refused");
  EXPECT_EQ(try_out(kRight, {.grid = grid, .more = "cluster = [16]\nnon_portable = true\n"}), "ok");
}

TEST_F(CudaBackendTest, TrapsAndWildPointersAreCrashes) {
  EXPECT_EQ(try_out("if (i == 0) __trap();"), "launch_failed");
  EXPECT_THAT(try_out("if (i == 0) *(float*)3 = 1;"), AnyOf("misaligned_address", "illegal_address"));
}

TEST_F(CudaBackendTest, PeaksAreThoseOfAGpu) {
  const auto peaks = backend_->peaks();
  ASSERT_TRUE(peaks.ok()) << peaks.error().to_string();
  EXPECT_GT(peaks->levels[0].bytes_per_second, peaks->levels[1].bytes_per_second);
  EXPECT_GT(peaks->levels[1].bytes_per_second, 1e11);
  EXPECT_GT(peaks->flops_per_second, 1e12);
}

TEST_F(CudaBackendTest, AProfileCountsWhatACallMoves) {
  const Opened opened = open(kRight, {});
  ASSERT_TRUE(opened.session) << opened.reason;
  const CallProfile profile = opened.session->profile({{0, 1, 2, 3}, 1});
  EXPECT_EQ(profile.counters.at("blocks"), 391);
  EXPECT_GT(profile.counters.at("registers"), 0);
  EXPECT_GT(profile.counters.at("call_ns"), 500);
  if (!profile.counters.contains("dram_read_bytes")) GTEST_SKIP() << "no counters: " << profile.notes.front();
  EXPECT_NEAR(profile.counters.at("dram_read_bytes"), 4e5, 1e5) << "an input of 400,000 bytes, read once";
  EXPECT_GT(profile.counters.at("l2_bytes"), 7e5);
  EXPECT_LT(profile.counters.at("l2_bytes"), 3e6) << "what crosses between the halves of an L2 counts twice";
  EXPECT_GT(profile.counters.at("occupancy"), 0.1);
  EXPECT_GT(profile.counters.at("joules"), 1e-6);
  EXPECT_TRUE(profile.notes.empty()) << profile.notes.front();
  EXPECT_EQ(run(*opened.session).status, BlockStatus::kOk) << "the next block has a process of its own";
}

TEST_F(CudaBackendTest, AKernelThatFaultsWhileItIsCountedCostsItsProfileOnly) {
  const Opened opened = open("if (i == 0) *(volatile float*)64 = x[0];", {});
  ASSERT_TRUE(opened.session) << opened.reason;
  const CallProfile profile = opened.session->profile({{0, 1}, 1});
  EXPECT_FALSE(profile.notes.empty());
  EXPECT_FALSE(profile.counters.contains("joules"));
  EXPECT_EQ(try_out(kRight), "ok");
}

TEST_F(CudaBackendTest, BlocksSayHowFastTheClockWas) {
  const Opened opened = open(kRight, {});
  ASSERT_TRUE(opened.session) << opened.reason;
  const BlockOutcome outcome = run(*opened.session);
  if (outcome.clock_mhz == 0) GTEST_SKIP() << "no NVML";
  EXPECT_GT(outcome.clock_mhz, 100);
  EXPECT_LT(outcome.clock_mhz, 10'000);
}

}  // namespace
}  // namespace lathe
