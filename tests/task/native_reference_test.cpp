#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/fd.h"
#include "task/cancellable.h"
#include "task/generate_inputs.h"
#include "task/reference.h"
#include "tests/task/example_tasks.h"

namespace lathe {
namespace {

constexpr std::string_view kScan = R"cpp(
  extern "C" void reference(const double* const* in, double* const* out, const long long* dims) {
    for (long long row = 0; row < dims[0]; ++row) {
      double carried = 0;
      for (long long i = 0; i < dims[1]; ++i) {
        carried = 0.5 * carried + in[0][row * dims[1] + i];
        out[0][row * dims[1] + i] = carried;
      }
    }
  }
)cpp";

/// A native task whose source is `code`.
TaskSpec task_with(std::string_view code) {
  const std::string folder =
      testing::TempDir() + "lathe_" + testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(write_file_atomically(folder + "/scan.cpp", code).ok());
  const Result<TaskSpec> spec = parse_task(R"toml(
name = "scan"
dims = ["rows", "cols"]
tensor = [{ name = "x", shape = ["rows", "cols"] }]
output = [{ name = "y", shape = ["rows", "cols"] }]
reference = "native"
source = "scan.cpp"
shape = [{ rows = 3, cols = 5 }])toml",
                                           folder + "/scan.toml");
  EXPECT_TRUE(spec.ok()) << spec.error().to_string();
  return *spec;
}

TEST(NativeReference, RunsTheAuthorsSourceInAChild) {
  const TaskSpec spec = task_with(kScan);
  const auto reference = make_reference(spec);
  ASSERT_TRUE(reference.ok()) << reference.error().to_string();
  const BoundTask task = bind_first(spec);
  const auto inputs = generate_inputs(task, Distribution::kNormal, Seed::from_number(1));
  const auto expected = (*reference)->evaluate(task, inputs, Numerics{});
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  const std::vector<double> x = inputs[0].decode();
  EXPECT_DOUBLE_EQ(expected->at(0).value.data[7], 0.25 * x[5] + 0.5 * x[6] + x[7]);
  EXPECT_GT(expected->at(0).value.err[7], 0);
}

TEST(NativeReference, ShowsTheCompilersMessage) {
  const auto reference = make_reference(task_with("void reference() { nonsense }"));
  ASSERT_FALSE(reference.ok());
  EXPECT_THAT(reference.error().hint, testing::HasSubstr("nonsense"));
}

TEST(NativeReference, SurvivesACrash) {
  const TaskSpec spec = task_with(
      "extern \"C\" void reference(const double* const*, double* const*, const long long*) { "
      "__builtin_trap(); }");
  const auto reference = make_reference(spec);
  ASSERT_TRUE(reference.ok());
  const BoundTask task = bind_first(spec);
  const auto inputs = generate_inputs(task, Distribution::kNormal, Seed::from_number(1));
  EXPECT_FALSE((*reference)->evaluate(task, inputs, Numerics{}).ok());
}

/// What the first shape's reference fails with.
Error error_of(const std::string& body, const CancelToken& cancel = {}) {
  const TaskSpec spec = task_with(
      "#include <unistd.h>\nextern \"C\" void reference(const double* const*, double* const* out, const long "
      "long*) { " +
      body + " }");
  const auto reference = make_reference(spec);
  EXPECT_TRUE(reference.ok());
  const BoundTask task = bind_first(spec);
  const auto inputs = generate_inputs(task, Distribution::kNormal, Seed::from_number(1));
  const auto cancellable = make_cancellable(**reference, cancel);
  const auto expected = cancellable->evaluate(task, inputs, Numerics{});
  return expected.ok() ? Error{} : expected.error();
}

TEST(NativeReference, FaultsNameTheSourceAndTheShape) {
  const std::string crash = error_of("(void)out; __builtin_trap();").to_string();
  EXPECT_THAT(crash, testing::HasSubstr("scan.toml"));
  EXPECT_THAT(crash,
              testing::HasSubstr("scan.cpp ended early: killed by Illegal instruction at rows=3, cols=5"));
  EXPECT_THAT(error_of("for (int i = 0; i < 15; ++i) out[0][i] = i; write(1, \"debug\", 5);").to_string(),
              testing::HasSubstr("scan.cpp wrote more than the 120 bytes of its outputs at rows=3"));
}

TEST(NativeReference, NamesAnElementThatItDoesNotWrite) {
  EXPECT_THAT(error_of("for (int i = 0; i < 15; ++i) if (i != 8) out[0][i] = i;").to_string(),
              testing::HasSubstr("does not write y[1, 3] at rows=3, cols=5"));
  EXPECT_THAT(error_of("for (int i = 0; i < 15; ++i) out[0][i] += i;").to_string(),
              testing::HasSubstr("does not write y[0, 0]"));
}

TEST(NativeReference, EndsWhenItIsCancelled) {
  const CancelToken cancel;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    cancel.cancel();
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(error_of("(void)out; for (;;) pause();", cancel).code, ErrorCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  later.join();
}

}  // namespace
}  // namespace lathe
