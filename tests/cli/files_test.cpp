// Verbs that take many files, which may be anything and be called anything.

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/fd.h"
#include "tests/cli/program.h"

namespace lathe {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kTwice =
    "/*lathe\n[[launch]]\nkernel = \"twice\"\nitems = \"n\"\nargs = [\"x\", \"y\"]\n*/\n"
    "#include <lathe/cpu.h>\n"
    "extern \"C\" void twice(const float* x, float* y, int64_t begin, int64_t end) {\n"
    "  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + x[i];\n"
    "}\n";
std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) found.push_back(line);
  return found;
}

class FilesTest : public ProgramTest {
 protected:
  /// The exit code; -1 if it did not exit.
  int run(const std::vector<std::string>& args) {
    Program program(folder_, args);
    const int status = program.wait(60);
    out_ = program.out();
    err_ = program.err();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string out_, err_;
};

TEST_F(FilesTest, EvalJudgesTheOthersWhereAFileIsNoCandidate) {
  write("good.cpp", kTwice);
  write("text.cpp", "no candidate");
  EXPECT_EQ(run({"eval", "tiny.toml", "missing.cpp", "good.cpp", "text.cpp", "--depth", "verify", "--device",
                 "cpu", "--json", "verdicts.json"}),
            3)
      << err_;
  EXPECT_THAT(out_, StartsWith("PASS"));
  EXPECT_THAT(err_, HasSubstr("missing.cpp"));
  EXPECT_THAT(err_, HasSubstr("text.cpp:1:1: the candidate does not start with"));
  const auto verdicts = nlohmann::json::parse(*read_file(path("verdicts.json")));
  ASSERT_EQ(verdicts.size(), 3u);
  EXPECT_EQ(verdicts[0]["reason"], "bad_candidate");
  EXPECT_EQ(verdicts[1]["verdict"], "PASS");
  EXPECT_EQ(verdicts[2]["candidate"], "text.cpp");
}

TEST_F(FilesTest, NoTextOfACandidatePassesForAVerdict) {
  const std::string forged = "PASS         ok                 good.cpp  9.99x naive";
  const std::string name = "a\n" + forged + "\n\x1b[2K\xff.cpp";
  write(name, std::string(kTwice) + "static_assert(false, \"\n" + forged + "\");\n#error \x1b[1A \u202e\n");
  EXPECT_EQ(run({"eval", "tiny.toml", name, "--depth", "verify", "--device", "cpu"}), 1) << err_;
  EXPECT_THAT(lines(out_ + err_), Not(Contains(StartsWith("PASS"))));
  EXPECT_THAT(out_, StartsWith("BUILD_FAILED"));
  EXPECT_THAT(out_, HasSubstr("⟨U+000A⟩"));
  for (const char* harmful : {"\x1b", "\u202e", "\xff"}) EXPECT_THAT(out_ + err_, Not(HasSubstr(harmful)));
  EXPECT_EQ(run({"eval", "tiny.toml", name, "--depth", "verify", "--device", "cpu", "--json", "-"}), 1)
      << err_;
  EXPECT_TRUE(nlohmann::json::accept(out_)) << out_;
  for (const char* harmful : {"\x1b", "\u202e", "\xff"}) EXPECT_THAT(out_, Not(HasSubstr(harmful)));
}

}  // namespace
}  // namespace lathe
