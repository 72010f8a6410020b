#include "model/text_grammar.h"

#include <gmock/gmock.h>

#include <functional>
#include <set>

#include "tests/model/byte_model.h"

namespace lathe {
namespace {

/// Tokens: the bytes, an end of text (256), and some longer ones.
Tokenizer tokenizer(const std::vector<std::string>& longer) {
  static const TemporaryFolder folder;
  static int number = 0;
  GgufWriter writer;
  std::vector<std::string> tokens = byte_tokens();
  tokens.push_back("<|end|>");
  tokens.insert(tokens.end(), longer.begin(), longer.end());
  std::vector<std::int32_t> types(tokens.size(), 1);
  types[256] = 3;
  writer.string("general.architecture", "llama").string("tokenizer.ggml.model", "gpt2");
  writer.string("tokenizer.ggml.pre", "qwen2").strings("tokenizer.ggml.tokens", tokens);
  writer.integers("tokenizer.ggml.token_type", types).strings("tokenizer.ggml.merges", {});
  writer.number("tokenizer.ggml.eos_token_id", 256);
  const std::string path = folder.write("t" + std::to_string(++number) + ".gguf", writer.bytes());
  auto opened = Tokenizer::open(path);
  EXPECT_TRUE(opened.ok()) << opened.error().to_string();
  return *std::move(opened);
}

/// "a=1", "a=16", "b=1;c", "b=2;c", "b=2;d".
TextGrammar some_grammar() {
  TextGrammar grammar;
  grammar.states = {{{{"a=1", 3}, {"a=16", 3}, {"b=1", 1}, {"b=2", 2}}, false},
                    {{{";c", 3}}, false},
                    {{{";c", 3}, {";d", 3}}, false},
                    {{}, true}};
  return grammar;
}

TEST(TextGrammar, AcceptsItsTextsAndNoOthers) {
  const TextGrammar grammar = some_grammar();
  for (const char* text : {"a=1", "a=16", "b=1;c", "b=2;c", "b=2;d"})
    EXPECT_TRUE(grammar.accepts(text)) << text;
  for (const char* text : {"", "a", "a=", "a=6", "a=161", "b=1", "b=1;d", "b=2;"})
    EXPECT_FALSE(grammar.accepts(text)) << text;
  EXPECT_EQ(grammar.longest_text(), 5);
}

TEST(TokenAutomaton, WritesEachTextInEveryWayThatTheTokensAllow) {
  const Tokenizer coding = tokenizer({"a=", "=1", "16", "1;", ";d", "xx", "a=1x"});
  const auto automaton = token_automaton(some_grammar(), coding, 256);
  ASSERT_TRUE(automaton.ok()) << automaton.error().to_string();
  std::multiset<std::string> texts;
  std::set<std::vector<TokenId>> ways;
  std::vector<TokenId> tokens;
  const std::function<void(std::int32_t)> walk = [&](std::int32_t state) {
    const auto& here = (*automaton)->states[static_cast<std::size_t>(state)];
    EXPECT_EQ(here.otherwise, TokenAutomaton::kForbidden);
    EXPECT_TRUE(std::ranges::is_sorted(here.arrows, {}, &TokenAutomaton::Arrow::token));
    if (here.arrows.empty()) {
      ASSERT_EQ(tokens.back(), 256) << "a text ends with the end";
      texts.insert(coding.decode(tokens));
      EXPECT_TRUE(ways.insert(tokens).second) << "no way is there twice";
    }
    for (const auto& arrow : here.arrows) {
      tokens.push_back(arrow.token);
      walk(arrow.to);
      tokens.pop_back();
    }
  };
  walk(0);
  // By hand: a|=|1, a=|1, a|=1; the same before 6, and a|=|16, a=|16; ...
  EXPECT_EQ(texts.count("a=1"), 3u);
  EXPECT_EQ(texts.count("a=16"), 5u);
  EXPECT_EQ(texts.count("b=1;c"), 3u) << "b|=|1|;|c, b|=1|;|c, b|=|1;|c";
  EXPECT_EQ(texts.count("b=2;c"), 1u);
  EXPECT_EQ(texts.count("b=2;d"), 2u);
  EXPECT_EQ(texts.size(), 14u);
}

TEST(TextGrammar, MayHaveLoopsLateTextsAndOpenEnds) {
  TextGrammar grammar;  // anything, "<<", a's and b's between brackets, ">", anything
  grammar.states = {
      {{{"<<", 1, true}}}, {{{"", 2}}}, {{{"a", 2}, {"b", 2}, {"", 3}}}, {{{">", 4}}}, {{}, false, true}};
  for (const char* text : {"<<>", "<<ab>", "x<y<<<", "no <<ba>", "<<a> and <<c>"}) {
    const bool expected = std::string_view(text) != "x<y<<<";
    EXPECT_EQ(grammar.accepts(text), expected) << text;
  }
  EXPECT_FALSE(grammar.accepts("<<c>")) << "the first << counts";
  EXPECT_FALSE(grammar.accepts("<<ab"));
  EXPECT_EQ(grammar.longest_text(), std::nullopt);
}

TEST(TokenAutomaton, LetsAnythingFollowInAnOpenState) {
  const Tokenizer coding = tokenizer({"<<a", "a>", ">x<", "<|other|>"});
  const TokenId special = 256, end = 256;
  TextGrammar grammar;
  grammar.states = {{{{"<<", 1, true}}}, {{{"a", 1}, {">", 2}}}, {{}, false, true}};
  const auto automaton = token_automaton(grammar, coding, end);
  ASSERT_TRUE(automaton.ok());
  const auto after = [&](const std::vector<TokenId>& tokens) {
    std::int32_t state = 0;
    for (const TokenId token : tokens)
      if (state != TokenAutomaton::kForbidden) state = (*automaton)->next(state, token);
    return state;
  };
  const auto& begin = (*automaton)->states[0];
  EXPECT_EQ(begin.otherwise, 0) << "most tokens lead back";
  EXPECT_LT(begin.arrows.size(), 8u);
  EXPECT_EQ(after({special}), TokenAutomaton::kForbidden) << "no end before the phrase";
  EXPECT_EQ(after({'x', 'x', '<', 257, 'b'}), TokenAutomaton::kForbidden) << "x x < <<a: the phrase, then b";
  const std::int32_t open = after({257, 258});
  ASSERT_NE(open, TokenAutomaton::kForbidden) << "<<a a>";
  EXPECT_EQ(after({257, 259}), open) << "<<a >x<";
  EXPECT_EQ((*automaton)->next(open, 'q'), open);
  const std::int32_t over = (*automaton)->next(open, end);
  EXPECT_TRUE((*automaton)->states[static_cast<std::size_t>(over)].arrows.empty());
}

TEST(TokenAutomaton, ATokenizerThatCannotWriteATextIsAnError) {
  const Tokenizer coding = tokenizer({});
  TextGrammar grammar;
  grammar.states = {{{{"ok", 1}}, false}, {{}, false}};  // a state where nothing may follow
  EXPECT_FALSE(token_automaton(grammar, coding, 256).ok());
}

}  // namespace
}  // namespace lathe
