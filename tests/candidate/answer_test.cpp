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
