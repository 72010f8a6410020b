#include "model/pre_tokenizer.h"

#include <gmock/gmock.h>

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string_view> pieces(PreTokenizer kind, std::string_view text) {
  std::vector<std::string_view> found;
  split_text(kind, text, found);
  return found;
}

TEST(PreTokenizer, Gpt2KeepsASpaceWithWhatFollows) {
  EXPECT_THAT(pieces(PreTokenizer::kGpt2, "Hello, the 123 world!!"),
              ElementsAre("Hello", ",", " the", " 123", " world", "!!"));
}

TEST(PreTokenizer, Gpt2LeavesTheLastSpaceOfARunToTheWord) {
  EXPECT_THAT(pieces(PreTokenizer::kGpt2, "a   b\n\nc  "),
              ElementsAre("a", "  ", " b", "\n", "\n", "c", "  "));
}

TEST(PreTokenizer, Gpt2KnowsContractionsInSmallLetters) {
  EXPECT_THAT(pieces(PreTokenizer::kGpt2, "we'll WE'LL 'tis"),
              ElementsAre("we", "'ll", " WE", "'", "LL", " '", "tis"));
}

TEST(PreTokenizer, SmolLmTakesDigitsOneByOneAndWithoutTheirSpace) {
  EXPECT_THAT(pieces(PreTokenizer::kSmolLm, "x 12  3a"), ElementsAre("x", " ", "1", "2", "  ", "3", "a"));
}

TEST(PreTokenizer, Qwen2TakesOneSignWithAWordAndDigitsOneByOne) {
  EXPECT_THAT(pieces(PreTokenizer::kQwen2, "(foo_bar) 12"), ElementsAre("(foo", "_bar", ")", " ", "1", "2"));
  EXPECT_THAT(pieces(PreTokenizer::kQwen2, "{\n\n  x;\r\n"), ElementsAre("{\n\n", " ", " x", ";\r\n"));
}

TEST(PreTokenizer, Llama3TakesThreeDigits) {
  EXPECT_THAT(pieces(PreTokenizer::kLlama3, "1234567"), ElementsAre("123", "456", "7"));
}

TEST(PreTokenizer, ContractionsOfLlama3HaveAnyCase) {
  EXPECT_THAT(pieces(PreTokenizer::kLlama3, "WE'LL it'\u017fx"),
              ElementsAre("WE", "'LL", " it", "'\u017f", "x"));
}

TEST(PreTokenizer, WhiteSpaceUpToTheLastNewlineIsAPiece) {
  EXPECT_THAT(pieces(PreTokenizer::kQwen2, "a \n \n  b"), ElementsAre("a", " \n \n", " ", " b"));
}

TEST(PreTokenizer, KnowsUnicodesLettersNumbersAndSpaces) {
  EXPECT_THAT(pieces(PreTokenizer::kQwen2, "\u4e2d\u6587\u00bd\u3000e"),
              ElementsAre("\u4e2d\u6587", "\u00bd", "\u3000e"));
  EXPECT_THAT(pieces(PreTokenizer::kGpt2, "\u0085\u200b"), ElementsAre("\u0085", "\u200b"))
      << "NEL is a space, ZWSP none";
}

TEST(PreTokenizer, PiecesTogetherAreTheText) {
  for (const auto kind :
       {PreTokenizer::kGpt2, PreTokenizer::kSmolLm, PreTokenizer::kQwen2, PreTokenizer::kLlama3}) {
    const std::string text = " '\n'9 '\u00e9' 9' \r \u2028.a'S";
    for (std::size_t cut = 0; cut < text.size(); ++cut) {
      if ((static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) continue;
      const std::string rest = text.substr(cut);
      std::string joined;
      for (const std::string_view piece : pieces(kind, rest)) {
        EXPECT_FALSE(piece.empty());
        joined += piece;
      }
      EXPECT_EQ(joined, rest);
    }
  }
}

TEST(PreTokenizer, AnUnknownNameListsThoseThatAreKnown) {
  const auto unknown = parse_pre_tokenizer("deepseek-coder");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message, HasSubstr("'deepseek-coder' is unknown"));
  EXPECT_THAT(unknown.error().hint, HasSubstr("smollm, qwen2"));
  EXPECT_EQ(parse_pre_tokenizer("llama-bpe").value(), PreTokenizer::kLlama3);
}

TEST(Nfc, ComposesMarksAndLeavesLatinAlone) {
  EXPECT_EQ(to_nfc("e\u0301x"), "\u00e9x");
  EXPECT_TRUE(may_need_nfc("e\u0301"));
  EXPECT_FALSE(may_need_nfc("plain \u00e9 \u00df"));
}

}  // namespace
}  // namespace lathe
