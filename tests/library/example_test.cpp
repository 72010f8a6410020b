#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "base/fd.h"
#include "library/export.h"

namespace lathe {
namespace {

const std::string kSource = LATHE_SOURCE_DIR;

/// Runs a command; its output is in the failure's message.
void run(const std::string& command, const std::string& log) {
  const int status = std::system((command + " >'" + log + "' 2>&1").c_str());
  EXPECT_EQ(status, 0) << command << "\n" << read_file(log).value();
}

TEST(ExportedKernel, IsFoundLinkedAndRightInAProjectOutsideTheTree) {
  const std::string folder = std::string(LATHE_BINARY_DIR) + "/export_example";
  std::filesystem::remove_all(folder);
  const auto task = load_task(kSource + "/tasks/softmax_rows.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  const auto text = read_file(kSource + "/tests/library/softmax_rows.lathe.cpp");
  const auto candidate = parse_candidate(*text, "softmax_rows.lathe.cpp");
  ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
  Verdict verdict;
  verdict.outcome = Outcome::kPass;
  verdict.candidate = candidate->digest;
  const Status exported = export_kernel(
      {.task = &*task, .candidate = &*candidate, .verdict = &verdict, .device_headers = kSource + "/device"},
      folder + "/package");
  ASSERT_TRUE(exported.ok()) << exported.error().to_string();

  const std::string log = folder + "/log";
  run("cmake -G Ninja -S '" + kSource + "/examples/use_exported_kernel' -B '" + folder +
          "/build' -Dlathe_softmax_rows_DIR='" + folder + "/package'",
      log);
  run("cmake --build '" + folder + "/build'", log);
  run("'" + folder + "/build/use_exported_kernel'", log);
  EXPECT_THAT(*read_file(log), testing::HasSubstr("all correct"));
}

}  // namespace
}  // namespace lathe
