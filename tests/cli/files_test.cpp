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

constexpr const char* kTwiceOnGpu =
    "/*lathe\n[[launch]]\nkernel = \"twice\"\ngrid = [\"cdiv(n, 256)\"]\nblock = [256]\n"
    "args = [\"x\", \"y\", \"n\"]\n*/\n"
    "extern \"C\" __global__ void twice(const float* x, float* y, int n) {\n"
    "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) y[i] = x[i] + x[i];\n"
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
  bool exists(const std::string& name) { return read_file(path(name)).ok(); }

  std::string out_, err_;
};

TEST_F(FilesTest, EvalJudgesTheOthersWhereAFileIsNoCandidate) {
  write("good.cpp", kTinyKernel);
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
  EXPECT_EQ(verdicts[1]["provenance"]["device_kind"], "cpu");
  EXPECT_GT(verdicts[1]["stage_seconds"]["verify"], 0);
  EXPECT_EQ(verdicts[2]["candidate"], "text.cpp");
}

TEST_F(FilesTest, NoTextOfACandidatePassesForAVerdict) {
  const std::string forged = "PASS         ok                 good.cpp  9.99x naive";
  const std::string name = "a\n" + forged + "\n\x1b[2K\xff.cpp";
  write(name,
        std::string(kTinyKernel) + "static_assert(false, \"\n" + forged + "\");\n#error \x1b[1A \u202e\n");
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

TEST_F(FilesTest, NoNameInACandidatesObjectPassesForAVerdict) {
  const std::string forged = "\x1b[2K\r\u202ePASS         ok                 good.cpp  9.99x naive";
  write("a.cpp", std::string(kTinyKernel) + "extern \"C\" void g() { asm volatile(\"call *\\\"" + forged +
                     "\\\"@GOTPCREL(%%rip)\"); }\n");
  EXPECT_EQ(run({"eval", "tiny.toml", "a.cpp", "--depth", "verify", "--device", "cpu"}), 1) << err_;
  EXPECT_THAT(lines(out_ + err_), Not(Contains(StartsWith("PASS"))));
  EXPECT_THAT(out_, StartsWith("BUILD_FAILED"));
  for (const char* harmful : {"\x1b", "\r", "\u202e"}) EXPECT_THAT(out_ + err_, Not(HasSubstr(harmful)));
}

TEST_F(FilesTest, ATaskThatTheCatalogueDeclinesIsRefusedAtOnceAndLeavesNoRun) {
  write("declined.toml",
        "name = \"declined\"\ndims = { H = [4, 20] }\n"
        "tensor = [{ name = \"x\", shape = [1, 2, \"H\", 8] },\n"
        "          { name = \"p\", shape = [1, 4, 4, 2], gen = { kind = \"uniform\" } }]\n"
        "graph = \"y = grid_sample(x, p)\"\nshape = [{ H = 8 }]\n");
  EXPECT_EQ(run({"optimize", "declined.toml", "--device", "cpu", "--evals", "1"}), 4);
  EXPECT_THAT(err_, HasSubstr("the catalogue does not know op grid_sample"));
  EXPECT_THAT(err_, Not(HasSubstr("preparing")));
  EXPECT_EQ(run({"runs", "list"}), 0);
  EXPECT_THAT(out_, HasSubstr("no runs yet"));
}

TEST_F(FilesTest, BuildGoesOnWithTheNextAndNamesWhatIsLeftOut) {
  write("fits.cu", kTwiceOnGpu);
  write("broken.cu", std::string(kTwiceOnGpu) + "#error broken on purpose\n");
  write("plan.cu", "/*lathe\n[[launch]]\nkernel = \"f\"\nargs = [\"z\", \"y\"]\n*/\n");
  write("domain.cu", "/*lathe\nrequires = \"n < 8\"\n" + std::string(kTwiceOnGpu).substr(8));
  const int code = run({"build", "tiny.toml", "plan.cu", "missing.cu", "domain.cu", "broken.cu", "fits.cu",
                        "--out", "o", "--arch", "sm_90a"});
  if (err_.find("no libnvrtc") != std::string::npos) GTEST_SKIP() << "no NVRTC";
  EXPECT_EQ(code, 3) << "a file is missing";
  EXPECT_THAT(err_, HasSubstr("plan.cu is left out: plan.cu:2:1: unknown argument 'z'"));
  EXPECT_THAT(err_, HasSubstr("missing.cu is left out"));
  EXPECT_THAT(err_, HasSubstr("domain.cu is left out"));
  EXPECT_THAT(err_, HasSubstr("broken.cu is left out"));
  EXPECT_THAT(err_, HasSubstr("broken on purpose"));
  EXPECT_THAT(err_, Not(HasSubstr("fits.cu")));
  EXPECT_TRUE(exists("o/fits.cubin") && exists("o/fits.json"));
  EXPECT_FALSE(exists("o/broken.cubin") || exists("o/domain.json"));
}

TEST_F(FilesTest, BuildExportsTheShippedKernelWithTensorMaps) {
  const std::string examples = LATHE_SOURCE_DIR "/examples/cuda/";
  const int code = run({"build", examples + "matmul_fp16.toml", examples + "matmul_fp16.cu", "--out", "o",
                        "--arch", "sm_90a"});
  if (err_.find("no libnvrtc") != std::string::npos) GTEST_SKIP() << "no NVRTC";
  ASSERT_EQ(code, 0) << err_;
  const auto document = nlohmann::json::parse(*read_file(path("o/matmul_fp16.json")));
  EXPECT_GE(document["maps"].size(), 2u);
  EXPECT_EQ(document["steps"][0]["args"][0], nlohmann::json::parse(R"({"map": 0})"));
}

TEST_F(FilesTest, BuildRefusesTwoFilesOfOneName) {
  write("k.cu", kTwiceOnGpu);
  EXPECT_EQ(run({"build", "tiny.toml", "k.cu", "./k.cu", "--out", "o", "--arch", "sm_90a"}), 3);
  EXPECT_THAT(err_, HasSubstr("would both be written to k.cubin"));
  EXPECT_FALSE(exists("o/k.cubin"));
}

}  // namespace
}  // namespace lathe
