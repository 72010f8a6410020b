#include "model/chat_template.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/model/fixtures.h"

namespace lathe {
namespace {

using testing::HasSubstr;

const std::vector<ChatMessage> kConversation = {
    {"system", "Be brief."}, {"user", " Hi "}, {"assistant", "Hello"}};

/// What a template writes for kConversation, or its error.
std::string rendered(const std::string& source) {
  const auto parsed = ChatTemplate::parse(source, "t");
  if (!parsed.ok()) return parsed.error().to_string();
  const auto text = parsed->render(kConversation, true);
  return text.ok() ? *text : text.error().to_string();
}

TEST(ChatTemplate, WritesAConversation) {
  EXPECT_EQ(rendered("{% for m in messages %}<|{{ m.role }}|>{{ m['content'] | trim }}\n{% endfor %}"
                     "{% if add_generation_prompt %}<|assistant|>{% endif %}"),
            "<|system|>Be brief.\n<|user|>Hi\n<|assistant|>Hello\n<|assistant|>");
}

TEST(ChatTemplate, TrimsAsHuggingFaceDoes) {
  EXPECT_EQ(rendered("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(rendered("a  {%- if true -%}  b  {%- endif %}"), "ab");
  EXPECT_EQ(rendered("a\n {%+ if true +%}\nb{% endif %}"), "a\n \nb");
  EXPECT_EQ(rendered("x {# gone #}\ny"), "x y");
}

TEST(ChatTemplate, ANamespaceOutlivesItsLoopAndAVariableDoesNot) {
  EXPECT_EQ(rendered("{% set n = namespace(last='') %}{% set v = 'outer' %}{% for m in messages %}"
                     "{% set n.last = m.role %}{% set v = 'inner' %}{% endfor %}{{ n.last }} {{ v }}"),
            "assistant outer");
}

TEST(ChatTemplate, MacrosSeeTheTemplateNotTheirCaller) {
  EXPECT_EQ(
      rendered(
          "{% set t = 'top' %}{% macro f(x, y='d') %}{{ x }}{{ y }}{{ t }}{{ m is defined }}{% endmacro %}"
          "{% for m in messages[:1] %}{{ f(1) }} {{ f(2, y='e') }}{% endfor %}"),
      "1dtopFalse 2etopFalse");
}

TEST(ChatTemplate, KnowsTokensOfTheModel) {
  const auto parsed = ChatTemplate::parse("{{ bos_token }}|{{ eos_token }}", "t", "<s>", "</s>");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->render({}, false).value(), "<s>|</s>");
}

TEST(ChatTemplate, MembersKeepTheirOrderInJson) {
  const auto parsed = ChatTemplate::parse("{{ tools | tojson }}", "t");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->render(nlohmann::ordered_json::parse(R"({"tools": [{"z": 1, "a": "é"}]})")).value(),
            R"([{"z": 1, "a": "é"}])");
}

TEST(ChatTemplate, ErrorsGiveLineAndColumn) {
  EXPECT_THAT(rendered("a\n{{ f( }}"), HasSubstr("t:2:8: '}' closes nothing"));
  EXPECT_THAT(rendered("a\n {{ messages | nothing }}"),
              HasSubstr("t:2:14: the filter 'nothing' is unknown; Lathe knows trim"));
  EXPECT_THAT(rendered("{% include 'x' %}"), HasSubstr("the tag 'include' is unknown here"));
  EXPECT_THAT(rendered("{% if true %}"), HasSubstr("'endif' is missing"));
  EXPECT_THAT(rendered("{{ 'open }}"), HasSubstr("no closing quote"));
  EXPECT_THAT(rendered("{{ 1"), HasSubstr("a tag has no end"));
  EXPECT_THAT(rendered("{{ missing.member }}"), HasSubstr("'missing' is undefined"));
  EXPECT_THAT(rendered("{{ 'a' + missing }}"), HasSubstr("'missing' is undefined"));
  EXPECT_THAT(rendered("{{ 'a' + 1 }}"), HasSubstr("'+' is not for str and int"));
  EXPECT_THAT(rendered("{{ messages is odd }}"), HasSubstr("an integer is needed"));
  EXPECT_THAT(rendered("{{ strftime_now('%Y') }}"), HasSubstr("the function 'strftime_now' is unknown"));
  EXPECT_THAT(rendered("{{ raise_exception('roles must \x1b alternate') }}"),
              HasSubstr("t:1:19: the template says: roles must ⟨U+001B⟩ alternate"));
}

TEST(ChatTemplate, IsBoundedInStepsTextAndDepth) {
  const std::string loop = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}";
  EXPECT_THAT(rendered(loop), HasSubstr("too many steps"));
  EXPECT_THAT(rendered("{{ 'x' * 999999999999 }}"), HasSubstr("longer than 64 MiB"));
  EXPECT_THAT(
      rendered("{% set n = namespace(t='x') %}{% for i in range(99) %}{% set n.t = n.t + n.t %}{% endfor %}"),
      HasSubstr("too many steps"));
  EXPECT_THAT(
      rendered(
          "{% set n = namespace(t=[1]) %}{% for i in range(99) %}{% set n.t = [n.t, n.t] %}{% endfor %}"),
      HasSubstr("nested too deeply"));
  EXPECT_THAT(rendered("{% set n = namespace(t=[1]) %}{% for i in range(60) %}{% set n.t = [n.t, n.t] %}{% "
                       "endfor %}{{ n.t }}"),
              HasSubstr("too many steps"));
  EXPECT_THAT(rendered("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("call each other"));
  EXPECT_THAT(rendered("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
              HasSubstr("nested too deeply"));
  std::string sum = "{{ 1";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  EXPECT_THAT(rendered(sum + " }}"), HasSubstr("too long"));
  EXPECT_THAT(rendered("{{ range(10000000) }}"), HasSubstr("more than 100000 numbers"));
  EXPECT_THAT(rendered("{{ 2 ** 9999999999 }} "), HasSubstr("out of range"));
  EXPECT_THAT(rendered("{% set n = namespace() %}{% set n.n = n %}"),
              HasSubstr("a namespace cannot be put into another value"));
}

TEST(ChatTemplate, ComesOutOfEitherKindOfModel) {
  const TemporaryFolder folder;
  GgufWriter writer;
  writer.string("tokenizer.chat_template", "{{ bos_token }}{{ messages[1].role }}")
      .strings("tokenizer.ggml.tokens", {"<s>"})
      .number("tokenizer.ggml.bos_token_id", 0);
  const auto from_gguf = ChatTemplate::open(folder.write("m.gguf", writer.bytes()));
  ASSERT_TRUE(from_gguf.ok()) << from_gguf.error().to_string();
  EXPECT_EQ(from_gguf->render(kConversation, false).value(), "<s>user");
  EXPECT_EQ(ChatTemplate::open(folder.path()).error().code, ErrorCode::kNotFound);
  folder.write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "{{ eos_token }}"}], "eos_token": "</s>"})");
  EXPECT_EQ(ChatTemplate::open(folder.path())->render(kConversation, false).value(), "</s>");
  folder.write("chat_template.jinja", "own");
  EXPECT_EQ(ChatTemplate::open(folder.path())->render(kConversation, false).value(), "own");
}

}  // namespace
}  // namespace lathe
