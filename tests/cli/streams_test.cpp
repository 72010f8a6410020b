#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/process.h"
#include "tests/cli/program.h"

namespace lathe {
namespace {

/// Shared by all cases, because precompiling a header takes seconds.
const std::string kCache = testing::TempDir() + "lathe-cache";

/// Programs whose standard streams and files are not what they usually are, as a shell makes them.
class StreamsTest : public ProgramTest {
 protected:
  /// Runs a shell's line, in which $LATHE is the program.
  Completed sh(const std::string& line) const {
    const std::string script = "export LATHE='" LATHE_PROGRAM "' LATHE_CACHE='" + kCache + "'; " + line;
    auto completed =
        run_command({.argv = {"/bin/bash", "-c", script}, .folder = folder_}, {}, 60, std::size_t{8} << 20);
    EXPECT_TRUE(completed.ok()) << completed.error().to_string();
    return completed.ok() ? *std::move(completed) : Completed{};
  }
};

TEST_F(StreamsTest, AFullStandardOutputIsAnError) {
  for (const char* verb : {"tasks show tiny.toml", "tasks generate", "--help", "tasks list --help"}) {
    const Completed full = sh(std::string("$LATHE ") + verb + " > /dev/full");
    EXPECT_EQ(full.status.code, 4) << verb;
    EXPECT_NE(full.errors.find("cannot write to standard output: No space left on device"), std::string::npos)
        << verb << ": " << full.errors;
  }
}

TEST_F(StreamsTest, MoreThanABufferForAFullOutputDoesNotAbort) {
  const Completed full = sh("$LATHE tasks generate --count 12 > /dev/full");
  EXPECT_EQ(full.status.code, 4) << full.errors;
}

TEST_F(StreamsTest, AReaderThatWentAwayIsAnErrorWithoutWords) {
  const Completed closed = sh("$LATHE tasks generate --count 12 | true; exit ${PIPESTATUS[0]}");
  EXPECT_EQ(closed.status.code, 4);
  EXPECT_EQ(closed.errors, "");
}

TEST_F(StreamsTest, AFullStandardErrorChangesNothingElse) {
  EXPECT_EQ(sh("$LATHE tasks show nosuch.toml 2> /dev/full").status.code, 3);
  EXPECT_EQ(sh("$LATHE nosuch 2> /dev/full").status.code, 2);
}

TEST_F(StreamsTest, ClosedStreamsAreNotTakenByOtherFiles) {
  EXPECT_EQ(sh("$LATHE tasks show tiny.toml >&-").status.code, 4) << "the results went nowhere";
  EXPECT_EQ(sh("$LATHE tasks show tiny.toml <&- >&- 2>&-").status.code, 4);
  const Completed made = sh("$LATHE tasks generate --out made <&- >&- 2>&-; cat made/*");
  EXPECT_NE(made.output.find("name = "), std::string::npos) << made.output;
  EXPECT_EQ(sh("$LATHE runs list --store s <&- >&- 2>&-").status.code, 3);
}

TEST_F(StreamsTest, AnOutputThatIsADeviceStaysOne) {
  ASSERT_EQ(::mkdir(path("made").c_str(), 0755), 0);
  ASSERT_EQ(::symlink("/dev/full", path("made/generated_1.toml").c_str()), 0);
  const Completed full = sh("$LATHE tasks generate --seed 1 --out made");
  EXPECT_EQ(full.status.code, 4);
  EXPECT_NE(full.errors.find("No space left on device"), std::string::npos) << full.errors;
  EXPECT_TRUE(std::filesystem::is_symlink(path("made/generated_1.toml")));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(StreamsTest, ADashIsStandardOutputForPagesToo) {
  const Completed drawn =
      sh("mkdir learned; for step in 1 2; do echo '{\"step\":'$step',\"loss\":'$step'}'; done > "
         "learned/metrics.jsonl; $LATHE report learned --html -");
  EXPECT_EQ(drawn.status.code, 0) << drawn.errors;
  EXPECT_TRUE(drawn.output.starts_with("<!DOCTYPE html>")) << drawn.output;
  EXPECT_NE(drawn.output.find("<svg"), std::string::npos) << "with its curves";
  EXPECT_FALSE(std::filesystem::exists(path("-")));
}

TEST_F(StreamsTest, ATrainingRunsCurvesAreAPictureOfTheirOwnWhereOneIsAskedFor) {
  const Completed drawn =
      sh("mkdir learned; for step in 1 2; do echo '{\"step\":'$step',\"loss\":'$step'}'; done > "
         "learned/metrics.jsonl; $LATHE report learned --html curves.svg && head -c 4 curves.svg && $LATHE "
         "report learned");
  EXPECT_EQ(drawn.status.code, 0) << drawn.errors;
  EXPECT_EQ(drawn.output, "curves.svg\n<svglearned/report.html\n");
}

TEST_F(StreamsTest, AFileLimitIsAnError) {
  const Completed limited =
      sh("ulimit -f 0; $LATHE tasks generate --out made 2>&1 | cat; exit ${PIPESTATUS[0]}");
  EXPECT_EQ(limited.status.code, 4);
  EXPECT_NE(limited.output.find("File too large"), std::string::npos) << limited.output;
}

TEST_F(StreamsTest, EndlessInputsAreRefused) {
  for (const char* line : {"$LATHE tasks show /dev/zero", "$LATHE eval tiny.toml /dev/zero"}) {
    const Completed refused = sh(line);
    EXPECT_EQ(refused.status.code, 3) << line;
    EXPECT_NE(refused.errors.find("'/dev/zero' has more than"), std::string::npos) << refused.errors;
  }
}

TEST_F(StreamsTest, NamesAndTextsInAnyEncodingAreErrorsAtMost) {
  write("latin\xe9.toml", kTinyTask);
  write("latin.toml", "name = \"caf\xe9\"\n");
  EXPECT_EQ(sh("$LATHE tasks show $'latin\\xe9.toml'").status.code, 0);
  EXPECT_EQ(sh("$LATHE tasks list --folder .").status.code, 3) << "one of them is no task";
  EXPECT_EQ(sh("$LATHE tasks show latin.toml").status.code, 3);
  EXPECT_EQ(sh("$LATHE tasks show $'\\xff\\xfe'").status.code, 3);
  EXPECT_EQ(sh("$LATHE $'\\xff\\xfe'").status.code, 2);
}

TEST_F(StreamsTest, AVerdictOnAnyBytesIsADocument) {
  write("caf\xe9.cpp",
        "/*lathe\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = [\"x\", \"y\", \"n\"]\n*/\n#error "
        "caf\xe9\n");
  const Completed judged =
      sh("$LATHE eval tiny.toml $'caf\\xe9.cpp' --depth build --device cpu --json out.json");
  ASSERT_EQ(judged.status.code, 1) << judged.errors;
  const auto document = nlohmann::json::parse(*read_file(path("out.json")), nullptr, false);
  ASSERT_FALSE(document.is_discarded());
  EXPECT_EQ(document[0]["reason"], "compile_error");
}

TEST_F(StreamsTest, TooLittleMemoryIsAnErrorInWords) {
  write("f.cpp", "/*lathe\n[[launch]]\nkernel = \"f\"\nitems = \"n\"\nargs = []\n*/\n");
  for (const char* kib : {"80000", "200000", "400000"}) {
    const Completed starved =
        sh(std::string("ulimit -v ") + kib + "; $LATHE eval tiny.toml f.cpp --device cpu");
    EXPECT_EQ(starved.status.signal, 0);
    EXPECT_LE(starved.status.code, 4) << starved.errors;
  }
}

}  // namespace
}  // namespace lathe
