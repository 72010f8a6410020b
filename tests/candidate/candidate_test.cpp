#include "candidate/candidate.h"

#include <gmock/gmock.h>

#include "base/fd.h"
#include "tests/candidate/fixtures.h"

namespace lathe {
namespace {

using testing::HasSubstr;

struct Place {
  int line, column;
};

void expect_error(const Result<Candidate>& parsed, const std::string& message, Place place) {
  ASSERT_FALSE(parsed.ok()) << message;
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(parsed.error().message, HasSubstr(message));
  EXPECT_EQ(parsed.error().where.file, "k.cpp");
  EXPECT_EQ(parsed.error().where.line, place.line) << parsed.error().to_string();
  EXPECT_EQ(parsed.error().where.column, place.column) << parsed.error().to_string();
}

TEST(ParseCandidate, ReadsPlanAndKeepsTheTextWhole) {
  const std::string text = "\n /*lathe\n[[launch]]\nkernel = \"f\"\n*/\nextern \"C\" void f() {}\n";
  const auto parsed = parse_candidate(text, "k.cpp");
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->text, text);
  EXPECT_EQ(parsed->digest, digest_of(text));
  EXPECT_EQ(parsed->plan().steps.size(), 1u);
  EXPECT_TRUE(parsed->has_kernels());
}

TEST(ParseCandidate, APlanOnTheOpeningLineHasTheRightColumns) {
  const auto parsed = parse_candidate("/*lathe launch = 3 */ int x;", "k.cpp");
  expect_error(parsed, "[[launch]]", {1, 18});
}

TEST(ParseCandidate, RefusesTextWithoutAPlan) {
  expect_error(parse_candidate("int main() {}", "k.cpp"), "does not start", {1, 1});
  expect_error(parse_candidate("", "k.cpp"), "does not start", {1, 1});
  expect_error(parse_candidate("\n\n  /*lathe\n[[launch]]", "k.cpp"), "no end", {3, 3});
  expect_error(candidate_with(""), "no step", {1, 8});
}

TEST(ParseCandidate, TakesWhatEditorsMakeOfAText) {
  const std::string plain = "/*lathe\n[[launch]]\nkernel = \"f\"\n*/\nextern \"C\" void f() {}\n";
  const auto marked = parse_candidate("\xef\xbb\xbf" + plain, "k.cpp");
  ASSERT_TRUE(marked.ok()) << marked.error().to_string();
  EXPECT_EQ(marked->text, plain) << "compilers don't expect the mark behind Lathe's own line";
  EXPECT_EQ(marked->digest, digest_of(plain));
  EXPECT_TRUE(starts_with_front_matter("\xef\xbb\xbf" + plain));
  for (const char* text :
       {"/*lathe\r\n[[launch]]\r\nkernel = \"f\"\r\n*/\r\nextern \"C\" void f() {}",
        "/*lathe\n\t[[launch]]\n\tkernel\t=\t\"f\"\t# a comment\n*/extern \"C\" void f() {}"}) {
    const auto parsed = parse_candidate(text, "k.cpp");
    ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
    EXPECT_EQ(parsed->plan().steps.size(), 1u);
  }
}

TEST(ParseCandidate, SaysThatFencesAreNoPartOfIt) {
  const auto parsed = parse_candidate("```cpp\n/*lathe\n[[launch]]\nkernel = \"f\"\n*/\n```\n", "k.cpp");
  expect_error(parsed, "does not start", {1, 1});
  EXPECT_THAT(parsed.error().hint, HasSubstr("fences"));
}

TEST(ParseCandidate, SaysHowBothKindsBegin) {
  for (const char* text :
       {"#!/usr/bin/env python3\nimport torch\n", "// A kernel.\nextern \"C\" void f() {}\n"}) {
    const auto parsed = parse_candidate(text, "k.cpp");
    expect_error(parsed, "does not start", {1, 1});
    EXPECT_THAT(parsed.error().hint, HasSubstr("begin with /*lathe"));
    EXPECT_THAT(parsed.error().hint, HasSubstr("\"\"\"lathe, a [host] table"));
  }
}

constexpr const char* kModule = R"py("""lathe
requires = "M % 8 == 0"

[host]
language = "python"
entry = "net.ModelNew"
"""
import torch
)py";

TEST(HostProgram, StandsInAModulesDocstring) {
  const auto parsed = parse_candidate(kModule, "k.py");
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_FALSE(parsed->has_plan());
  EXPECT_TRUE(parsed->has_kernels());
  EXPECT_EQ(parsed->host_program().language, "python");
  EXPECT_EQ(parsed->host_program().entry, "net.ModelNew");
  EXPECT_EQ(parsed->requirement()->to_string(), "M % 8 == 0");
  EXPECT_EQ(parsed->text, kModule);
}

TEST(HostProgram, StandsInACommentToo) {
  const auto parsed = candidate_with("[host]\nlanguage = \"cxx\"\nentry = \"run\"");
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->host_program().language, "cxx");
  EXPECT_FALSE(parsed->requirement());
}

TEST(HostProgram, HasNoPlan) {
  expect_error(candidate_with("[host]\nlanguage = \"cxx\"\nentry = \"run\"\n[[launch]]\nkernel = \"f\""),
               "unknown key 'launch'", {5, 3});
  expect_error(parse_candidate("\"\"\"lathe\n[[launch]]\nkernel = \"f\"\n\"\"\"\n", "k.cpp"), "[host] table",
               {1, 1});
}

TEST(HostProgram, NamesItsLanguageAndItsEntry) {
  expect_error(candidate_with("[host]\nentry = \"run\""), "'language' is missing", {2, 1});
  expect_error(candidate_with("[host]\nlanguage = \"cxx\""), "'entry' is missing", {2, 1});
  expect_error(candidate_with("[host]\nlanguage = \"cxx\"\nentry = \"run()\""), "'entry' must be", {4, 9});
  expect_error(candidate_with("host = 3"), "'host' must be a table", {2, 8});
  expect_error(parse_candidate("\"\"\"lathe\n[host]\n", "k.cpp"), "no end", {1, 1});
}

TEST(HostProgram, IsCheckedAgainstATaskByItsRequirementAlone) {
  EXPECT_TRUE(check_plan(*parse_candidate(kModule, "k.py"), sample_task()).ok());
  const auto unknown = candidate_with("requires = \"Q > 1\"\n[host]\nlanguage = \"cxx\"\nentry = \"run\"");
  EXPECT_THAT(check_plan(*unknown, sample_task()).error().message, HasSubstr("'Q'"));
}

TEST(ParseCandidate, RefusesWhatIsNoText) {
  EXPECT_THAT(parse_candidate(std::string("/*lathe\0*/", 10), "k").error().message, HasSubstr("zero byte"));
  const std::string huge = "/*lathe\n[[launch]]\nkernel = \"f\"\n*/" + std::string(1 << 20, ' ');
  EXPECT_THAT(parse_candidate(huge, "k").error().message, HasSubstr("too many"));
}

TEST(ParseCandidate, ErrorsPointIntoTheCandidatesOwnText) {
  expect_error(candidate_with("[[launch]]\nkernel = \"f\"\nitem = 3"), "unknown key 'item'", {4, 1});
  expect_error(candidate_with("[[launch]]\nkernel = 3"), "must be a string", {3, 10});
  expect_error(candidate_with("\n[[launch]]\nitems = 1"), "'kernel' is missing", {3, 1});
  expect_error(candidate_with("[[launch]]\nkernel = \"f g\""), "extern \"C\"", {3, 10});
  expect_error(candidate_with("[[launch]]\nkernel = \"f\"\nargs = [\"x\", 1.5]"),
               "an integer or an expression", {4, 14});
  expect_error(candidate_with("[[launch]]\nkernel = \"f\"\nindex = \"i\""), "needs 'repeat'", {4, 9});
  expect_error(candidate_with("[[scratch]]\nname = \"s\"\n[[launch]]\nkernel = \"f\""), "'bytes' is missing",
               {2, 1});
  expect_error(candidate_with("[[scratch]]\nname = \"s\"\nbytes = 4\ninit = \"ones\""), "unknown init",
               {5, 8});
  const std::string map = "[[tma]]\nname = \"m\"\nbase = \"x\"\n";
  expect_error(candidate_with(map + "dims = [4]\nbox = [4, 4]"),
               "as many 'box' extents as 'dims', got 2 and 1", {2, 1});
  expect_error(candidate_with(map + "dims = [4]\nbox = [4]\nstrides = [16]"), "each dim but the innermost",
               {2, 1});
  expect_error(candidate_with(map + "dims = [1, 1, 1, 1, 1, 1]"), "at most 5", {5, 8});
  expect_error(candidate_with(map + "dims = [4]\nbox = [4]\nfill = \"one\""), "unknown fill 'one'", {7, 8});
  expect_error(candidate_with(map + "dtype = \"half\""), "half", {5, 9});
  expect_error(candidate_with("[[tma]]\nname = \"m\""), "'base' is missing", {2, 1});
  expect_error(candidate_with("launch = 1"), "[[launch]]", {2, 10});
}

TEST(ParseCandidate, TomlErrorsPointIntoTheCandidatesOwnText) {
  const auto parsed = candidate_with("[[launch]]\nkernel = \"f");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().where.line, 3);
  EXPECT_THAT(parsed.error().hint, HasSubstr("TOML"));
}

TEST(ParseCandidate, NestingThatWouldOverflowTheStackIsRefused) {
  std::string key = "a";
  for (int part = 0; part < 40000; ++part) key += ".a";
  expect_error(candidate_with("[" + key + "]"), "more than 16 dotted parts", {2, 34});
}

TEST(ParseCandidate, ExpressionErrorsPointInsideTheString) {
  expect_error(candidate_with("[[launch]]\nkernel = \"f\"\nitems = \"M + )\""), "", {4, 14});
}

TEST(ParseCandidate, LimitsWhatAPlanMayHold) {
  std::string many;
  for (int i = 0; i < 1025; ++i) many += "[[launch]]\nkernel = \"f\"\n";
  EXPECT_THAT(candidate_with(many).error().message, HasSubstr("1025 tables [[launch]]"));
  std::string args = "[[launch]]\nkernel = \"f\"\nargs = [";
  for (int i = 0; i < 25; ++i) args += "1, ";
  EXPECT_THAT(candidate_with(args + "]").error().message, HasSubstr("24 arguments"));
  EXPECT_THAT(candidate_with("[[launch]]\nkernel = \"f\"\ngrid = [1, 1, 1, 1]").error().message,
              HasSubstr("at most 3"));
}

TEST(ParseCandidate, StepsRunInTheOrderTheyAreWritten) {
  const auto parsed = candidate_with(R"(
[[launch]]
kernel = "a"
[[node]]
library = "onednn"
nodes = ["product"]
[[launch]]
kernel = "b"
)");
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  ASSERT_EQ(parsed->plan().steps.size(), 3u);
  EXPECT_EQ(parsed->plan().steps[0].kernel, "a");
  EXPECT_EQ(parsed->plan().steps[1].library, "onednn");
  EXPECT_EQ(parsed->plan().steps[2].kernel, "b");
}

TEST(ParseCandidate, APlanOfLibraryNodesHasNoKernels) {
  const auto parsed = candidate_with("[[node]]\nlibrary = \"onednn\"\nnodes = [\"y\"]");
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(parsed->has_kernels());
}

TEST(CheckPlan, AcceptsEveryKindOfArgument) {
  const auto candidate = candidate_with(R"plan(requires = "M % 2 == 0 && l2_bytes > 0"
constants = ["K"]
[[scratch]]
name = "product"
bytes = "4 * M * 8"
[[launch]]
kernel = "f"
items = "cdiv(M, threads)"
args = ["x", "w", "alpha", "y", "product", "M", "M * K", 7, "i"]
repeat = "K"
index = "i"
)plan");
  ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
  const Status checked = check_plan(*candidate, sample_task());
  EXPECT_TRUE(checked.ok()) << checked.error().to_string();
}

TEST(CheckPlan, NamesWhatTheTaskDoesNotHave) {
  const auto message = [](const std::string& plan) {
    const auto candidate = candidate_with(plan);
    EXPECT_TRUE(candidate.ok()) << candidate.error().to_string();
    const Status checked = check_plan(*candidate, sample_task());
    return checked.ok() ? std::string("accepted") : checked.error().to_string();
  };
  const std::string launch = "[[launch]]\nkernel = \"f\"\nargs = [\"x\", \"y\"]\n";
  EXPECT_EQ(message(launch), "accepted");
  EXPECT_THAT(message("[[launch]]\nkernel = \"f\"\nargs = [\"z\", \"y\"]"),
              HasSubstr("unknown argument 'z'"));
  EXPECT_THAT(message("[[launch]]\nkernel = \"f\"\nargs = [\"N + 1\", \"y\"]"),
              HasSubstr("unknown name 'N'"));
  EXPECT_THAT(message(launch + "items = \"rows\""), HasSubstr("known: "));
  EXPECT_THAT(message(launch + "when = \"i > 0\""), HasSubstr("unknown name 'i'"));
  EXPECT_THAT(message(launch + "repeat = \"i\"\nindex = \"i\""), HasSubstr("unknown name 'i'"));
  EXPECT_THAT(message("constants = [\"N\"]\n" + launch), HasSubstr("not a dim of task"));
  EXPECT_THAT(message("requires = \"N > 1\"\n" + launch), HasSubstr("unknown name 'N'"));
  EXPECT_THAT(message("[[node]]\nlibrary = \"onednn\"\nnodes = [\"z\"]\n" + launch),
              HasSubstr("no node 'z'"));
  EXPECT_THAT(message("[[launch]]\nkernel = \"f\"\nargs = [\"x\"]"),
              HasSubstr("no step takes the output 'y'"));
}

TEST(CheckPlan, AMapHasABufferANameOfItsOwnAndCountsAsItsBase) {
  const auto message = [](const std::string& name, const std::string& base, const std::string& args) {
    const auto candidate = candidate_with(
        "[[tma]]\nname = \"" + name + "\"\nbase = \"" + base +
        "\"\ndims = [\"K\", \"M\"]\nbox = [4, 4]\n[[launch]]\nkernel = \"f\"\nargs = [" + args + "]");
    EXPECT_TRUE(candidate.ok()) << candidate.error().to_string();
    const Status checked = check_plan(*candidate, sample_task());
    return checked.ok() ? std::string("accepted") : checked.error().message;
  };
  EXPECT_EQ(message("m", "x", "\"m\", \"y\""), "accepted");
  EXPECT_EQ(message("m", "y", "\"x\", \"m\""), "accepted");
  EXPECT_THAT(message("m", "x", "\"m\""), HasSubstr("no step takes the output 'y'"));
  EXPECT_THAT(message("m", "z", "\"m\", \"y\""), HasSubstr("the base 'z' of map 'm' is not a buffer"));
  EXPECT_THAT(message("m", "alpha", "\"m\", \"y\""), HasSubstr("is not a buffer"));
  EXPECT_THAT(message("x", "x", "\"y\""), HasSubstr("name of something else"));
}

TEST(CheckPlan, RefusesNamesThatHideOthers) {
  const auto check = [](const std::string& plan) {
    return check_plan(*candidate_with(plan + "\n[[launch]]\nkernel = \"g\"\nargs = [\"y\"]"), sample_task());
  };
  EXPECT_THAT(check("[[scratch]]\nname = \"x\"\nbytes = 4").error().message, HasSubstr("input's name"));
  EXPECT_THAT(check("[[scratch]]\nname = \"y\"\nbytes = 4").error().message, HasSubstr("output's name"));
  EXPECT_THAT(
      check("[[scratch]]\nname = \"s\"\nbytes = 4\n[[scratch]]\nname = \"s\"\nbytes = 4").error().message,
      HasSubstr("twice"));
  EXPECT_THAT(check("[[launch]]\nkernel = \"f\"\nrepeat = 2\nindex = \"M\"").error().message,
              HasSubstr("hides"));
}

/// The first code block of this language in the README.
std::string readme_block(const std::string& language) {
  const auto text = read_file(LATHE_SOURCE_DIR "/README.md");
  EXPECT_TRUE(text.ok());
  const std::string open = "```" + language + "\n";
  const std::size_t begin = text->find(open) + open.size();
  return text->substr(begin, text->find("```", begin) - begin);
}

TEST(Readme, ShowsATaskAndAKernelForIt) {
  const auto task = parse_task(readme_block("toml"), "scaled_relu.toml");
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  const auto candidate = parse_candidate(readme_block("cpp"), "scaled_relu.cpp");
  ASSERT_TRUE(candidate.ok()) << candidate.error().to_string();
  const Status checked = check_plan(*candidate, *task);
  EXPECT_TRUE(checked.ok()) << checked.error().to_string();
}

TEST(WithConstants, AreHiddenFromLathesHeadersAndKeepTheLines) {
  const std::string hidden = "#ifdef N\n#undef N\n#define LATHE_HIDDEN_N\n#endif\n";
  const std::string shown = "#ifdef LATHE_HIDDEN_N\n#undef LATHE_HIDDEN_N\n#define N 128\n#endif\n";
  EXPECT_EQ(
      with_constants("/*lathe\n#include <lathe/cpu.h>\n*/\n#include <lathe/cpu.h>\nint f();\n", {{"N", 128}}),
      "#define N 128\n#line 1\n/*lathe\n#include <lathe/cpu.h>\n*/\n" + hidden +
          "#line 4\n#include <lathe/cpu.h>\n" + shown + "#line 5\nint f();\n");
  EXPECT_EQ(with_constants("/*lathe\n*/\nint f();", {{"N", 128}, {"rows", 4}}),
            "#define N 128\n#define rows 4\n#line 1\n/*lathe\n*/\nint f();");
  EXPECT_EQ(with_constants("/*lathe\n*/\n  #  include <lathe/cuda.cuh>", {{"N", 128}}),
            "#define N 128\n#line 1\n/*lathe\n*/\n" + hidden + "#line 3\n  #  include <lathe/cuda.cuh>\n" +
                shown + "#line 4\n");
  EXPECT_EQ(with_constants("int f();", {}), "int f();");
}

}  // namespace
}  // namespace lathe
