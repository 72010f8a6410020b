#include <gmock/gmock.h>

#include "candidate/candidate.h"

namespace lathe {
namespace {

using testing::HasSubstr;

std::string block(const std::string& kernel) {
  return "```cpp\n/*lathe\n[[launch]]\nkernel = \"" + kernel + "\"\n*/\nint x;\n```\n";
}

std::string kernel_of(const std::string& answer) {
  const auto parsed = parse_answer(answer, "model");
  return parsed.ok() ? parsed->plan().steps[0].kernel : parsed.error().message;
}

TEST(ParseAnswer, TakesTheOnlyBlock) {
  EXPECT_EQ(kernel_of("Here it is:\n" + block("f") + "It is fast."), "f");
}

TEST(ParseAnswer, TakesTheLastBlockThatHasAPlan) {
  EXPECT_EQ(kernel_of(block("draft") + "Better:\n" + block("final")), "final");
  EXPECT_EQ(kernel_of(block("f") + "Run it:\n```sh\nlathe eval\n```\n"), "f");
}

TEST(ParseAnswer, TheBlockIsTheCandidatesTextWithoutItsFence) {
  const auto parsed = parse_answer("Text\n" + block("f"), "model");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->text, "/*lathe\n[[launch]]\nkernel = \"f\"\n*/\nint x;\n");
}

TEST(ParseAnswer, AcceptsABareCandidateAndABlockCutShort) {
  EXPECT_EQ(kernel_of("\n/*lathe\n[[launch]]\nkernel = \"f\"\n*/\nint x;\n"), "f");
  const std::string cut = block("f");
  EXPECT_EQ(kernel_of("So:\n" + cut.substr(0, cut.rfind("```"))), "f");
}

TEST(ParseAnswer, FindsAPythonModule) {
  const std::string module =
      "\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"ModelNew\"\n\"\"\"\nimport torch\n";
  const auto parsed =
      parse_answer("First:\n" + block("f") + "Better:\n```python\n" + module + "```\n", "model");
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->text, module);
}

TEST(ParseAnswer, AFenceInsideALongerFenceIsText) {
  const std::string inner = "/*lathe\n[[launch]]\nkernel = \"f\"\n*/\n// ```\nint x;\n";
  const auto parsed = parse_answer("````cpp\n" + inner + "````\n", "model");
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(parsed->text, inner);
  EXPECT_EQ(kernel_of("~~~\n" + inner + "~~~\n"), "f");
}

TEST(ParseAnswer, WhatWasThoughtIsNoAnswer) {
  EXPECT_EQ(kernel_of("<think>" + block("draft") + "</think>" + block("f")), "f");
  EXPECT_THAT(kernel_of("<think>" + block("draft")), HasSubstr("no fenced block"));
  EXPECT_EQ(kernel_of(block("draft") + "wait</think>" + block("f")), "f") << "the server ate the first mark";
}

TEST(CandidateIn, GivesWhatIsNearestToACandidate) {
  EXPECT_EQ(candidate_in("a\n```cpp\nint x;\n```\nb"), "int x;\n");
  EXPECT_EQ(candidate_in("no code"), "no code");
  EXPECT_EQ(candidate_in(""), "");
  EXPECT_EQ(candidate_in(std::string(3 << 20, 'x')).size(), kMaxCandidateBytes);
}

TEST(ParseAnswer, SaysWhenThereIsNone) {
  for (const char* answer : {"", "I cannot do this.", "```cpp\nint x;\n```", "```"})
    EXPECT_THAT(kernel_of(answer), HasSubstr("no fenced block")) << answer;
}

TEST(ParseAnswer, ABrokenPlanIsAnErrorWithItsLine) {
  const auto parsed = parse_answer("```\n/*lathe\n[[launch]]\nkernal = \"f\"\n*/\n```", "model");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().where.line, 3);
}

}  // namespace
}  // namespace lathe
