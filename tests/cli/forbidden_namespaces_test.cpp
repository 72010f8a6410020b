#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/process.h"
#include "tests/cli/program.h"

namespace lathe {
namespace {

using testing::HasSubstr;

/// A machine on which no process may enter namespaces.
class ForbiddenNamespacesTest : public ProgramTest {
 protected:
  Completed lathe(std::vector<std::string> args) const {
    args.insert(args.begin(), {DENY_NAMESPACES, LATHE_PROGRAM});
    auto completed = run_command(
        {.argv = std::move(args),
         .environment = std::vector<std::string>{"PATH=/usr/bin:/bin",
                                                 "LATHE_CACHE=" + testing::TempDir() + "lathe-cache"},
         .folder = folder_},
        {}, 240);
    EXPECT_TRUE(completed.ok()) << completed.error().to_string();
    return completed.ok() ? *std::move(completed) : Completed{};
  }
};

TEST_F(ForbiddenNamespacesTest, DoctorNamesWhatIsMissingAndTheRemedies) {
  const Completed doctor = lathe({"doctor", "--device", "cpu"});
  EXPECT_EQ(doctor.status.code, 4);
  EXPECT_THAT(doctor.output, HasSubstr("MISSING  namespaces"));
  EXPECT_THAT(doctor.output, HasSubstr("--cap-add SYS_ADMIN"));
  EXPECT_THAT(doctor.output, HasSubstr("--reduced-jail"));
}

TEST_F(ForbiddenNamespacesTest, NothingRunsInAReducedJailUnasked) {
  write("twice.cpp", kTinyKernel);
  const Completed refused = lathe({"eval", "tiny.toml", "twice.cpp", "--depth", "verify"});
  EXPECT_EQ(refused.status.code, 4);
  EXPECT_THAT(refused.errors, HasSubstr("--reduced-jail"));
}

TEST_F(ForbiddenNamespacesTest, AVerdictOfAReducedJailSaysSo) {
  write("twice.cpp", kTinyKernel);
  const Completed done =
      lathe({"eval", "tiny.toml", "twice.cpp", "--depth", "verify", "--reduced-jail", "--json", "-"});
  ASSERT_EQ(done.status.code, 0) << done.errors;
  const auto document = nlohmann::json::parse(done.output);
  EXPECT_EQ(document[0]["verdict"], "PASS");
  EXPECT_EQ(document[0]["jail"], "reduced");
  EXPECT_THAT(done.errors, HasSubstr("reduced jail"));
}

}  // namespace
}  // namespace lathe
