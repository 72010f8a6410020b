#include "task/toml_table.h"

#include <gmock/gmock.h>

namespace lathe {
namespace {

using testing::HasSubstr;

std::string repeated(std::string_view piece, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece;
  return text;
}

Error error_of(std::string_view text, SourcePos origin = {"t.toml"}) {
  const auto document = TomlDocument::parse(text, std::move(origin));
  if (document.ok()) {
    ADD_FAILURE() << "parsed, but should not:\n" << text.substr(0, 200);
    return {};
  }
  return document.error();
}

void expect_place(const Error& error, int line, int column) {
  EXPECT_EQ(error.where.file, "t.toml");
  EXPECT_EQ(error.where.line, line) << error.to_string();
  EXPECT_EQ(error.where.column, column) << error.to_string();
}

class TooDeep : public testing::TestWithParam<std::string> {};

TEST_P(TooDeep, IsRefusedBeforeItOverflowsTheStack) {
  const Error error = error_of("x = 1\n" + GetParam());
  EXPECT_EQ(error.code, ErrorCode::kInvalid);
  EXPECT_EQ(error.where.line, 2) << error.to_string();
  EXPECT_GT(error.where.column, 0);
}

INSTANTIATE_TEST_SUITE_P(TomlDocument, TooDeep,
                         testing::Values("[" + repeated("a.", 40000) + "a]", repeated("a.", 40000) + "a = 1",
                                         repeated("'a' . ", 40000) + "\"a\" = 1",
                                         "[[" + repeated("\"\".", 40000) + "a]]",
                                         "y = {" + repeated("a.", 40000) + "a = 1}",
                                         "y = " + repeated("[", 40000), "y = " + repeated("{a = ", 40000),
                                         "y = [ '''x''''', " + repeated("[", 40000),
                                         "y = [ \"\"\"x\\\"\"\"\"\", " + repeated("[", 40000)));

/// toml++ asserts that a header's name begins as names do.
TEST(TomlDocument, HeadersWithoutANameAreRefused) {
  for (const char* text : {"[*]",          "[ =]",
                           "[.a]",         "[[[a]]]",
                           "[[ ,a]]",      "[\xc3\xa9]",
                           "[\n",          "[\r\n]",
                           "[#]",          "\xef\xbb\xbf[*]",
                           "\xc2\xa0[*]",  "x = 1\n\t[$]",
                           "x = 1 [*]",    "x = [1]\n[*]",
                           "x = '['\n[*]", "[a]\n# [\n[*]",
                           "[a]\v[*]",     "[",
                           "[[",           "[ [a]]",
                           "[]",           "[[]]"}) {
    const Error error = error_of(text);
    EXPECT_EQ(error.code, ErrorCode::kInvalid) << text;
  }
  expect_place(error_of("x = 1\n[ *]"), 2, 3);
}

TEST(TomlDocument, CharactersBeyondAsciiNeedQuotes) {
  for (const char* text :
       {"\xd1\x9e = 1", "a\xcd\x9e\xd1\x9e = 1", "x = {a\xc3\xa9.b = 1}", "x = \xc2\xa0 1"})
    EXPECT_EQ(error_of(text).code, ErrorCode::kInvalid) << text;
  for (const char* text : {"'\xd1\x9e' = 1", "x = \"\xd1\x9e\"", "x = 1 # \xd1\x9e", "\xef\xbb\xbfx = 1",
                           "x = '''\n\xd1\x9e'''"}) {
    const auto document = TomlDocument::parse(text, {"t.toml"});
    EXPECT_TRUE(document.ok()) << text << ": " << document.error().to_string();
  }
}

/// To toml++ a quote inside a number begins no string. With sanitizers this test says more.
TEST(TomlDocument, CharactersBeyondAsciiInWhatIsNoStringAreErrors) {
  for (const char* value : {"1:6\"m\xc5\x9b", "1.\"\xc5\x9b\"", "+.\"\xc5\x9b\"", "1e.'\xc5\x9b'",
                            "0x1f.\"\xc5\x9b\"", "1;\"\xc5\x9b\"", "1979-05-27T07:32:00.\"\xc5\x9b\"",
                            "1(\"\xc5\x9b\"", "[1, 1\x01'\xc5\x9b", "\"\"\"y\n\\\xef\xbb\xbd\"\"\" 0"})
    EXPECT_EQ(error_of("x = " + std::string(value)).code, ErrorCode::kInvalid) << value;
}

TEST(TomlDocument, HeadersWithNamesAndListsParse) {
  for (const char* text : {"[a]", "[ a . b ]", "[[a]]", "[[ 'a' ]]", "[\"a b\".c]", "x = [1]\n[a]",
                           "x = [\n[1],\n[2]]\n[a]", "x=[[1]]"}) {
    const auto document = TomlDocument::parse(text, {"t.toml"});
    EXPECT_TRUE(document.ok()) << text << ": " << document.error().to_string();
  }
}

TEST(TomlDocument, NestingInsideStringsAndCommentsIsText) {
  const std::string deep = repeated("[a.", 1000);
  for (const std::string& text :
       {"x = \"" + deep + "\"", "x = '" + deep + "'", "x = \"\"\"\n" + deep + "\n\"\"\"",
        "x = '''\n" + deep + "\n'''", "# " + deep + "\nx = 1", "x = \"\\\"" + deep + "\"",
        "x = '''''" + deep + "'''''"}) {
    const auto document = TomlDocument::parse(text, {"t.toml"});
    EXPECT_TRUE(document.ok()) << document.error().to_string();
  }
}

TEST(TomlDocument, OrdinaryNestingParses) {
  EXPECT_TRUE(TomlDocument::parse("[a.b.c.d]\ne.f = [[1, 2.5], [{g = [3]}]]", {"t.toml"}).ok());
}

TEST(TomlDocument, TextInUtf16IsNamedAsSuch) {
  const Error error =
      error_of(std::string("\xff\xfe"
                           "n\0=\0",
                           6));
  EXPECT_THAT(error.message, HasSubstr("UTF-16"));
  EXPECT_THAT(error.hint, HasSubstr("UTF-8"));
}

TEST(TomlDocument, RefusesMoreThanAMebibyte) {
  EXPECT_THAT(error_of(std::string((1 << 20) + 1, ' ')).message, HasSubstr("too many"));
}

TEST(TomlDocument, PlacesAreThoseOfTheFileThatTheTextIsPartOf) {
  const SourcePos origin{"t.toml", 10, 5};
  expect_place(error_of("a = ]", origin), 10, 9);
  expect_place(error_of("a = 1\nb = ]", origin), 11, 5);
  const auto document = TomlDocument::parse("a = 1\nb = true", origin);
  ASSERT_TRUE(document.ok());
  expect_place(document->root().text("a", "").error(), 10, 9);
  expect_place(document->root().text("b", "").error(), 11, 5);
  expect_place(document->root().allow_only({"a"}, "the table").error(), 11, 1);
}

TEST(TomlTable, MembersStandInTheOrderOfTheText) {
  const auto document = TomlDocument::parse("zebra = 1\napple = 2\nmango = 3", {"t.toml"});
  ASSERT_TRUE(document.ok());
  std::vector<std::string> keys;
  const TomlTable root = document->root();
  for (const TomlValue& member : root.members()) keys.push_back(member.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"zebra", "apple", "mango"}));
}

TEST(TomlTable, WrongKindsAreErrors) {
  const auto document =
      TomlDocument::parse("text = 1\nnumber = 'x'\nflag = 0\nlist = ['a', 2]\nday = 2020-01-01", {"t.toml"});
  ASSERT_TRUE(document.ok());
  const TomlTable root = document->root();
  EXPECT_THAT(root.text("text", "").error().message, HasSubstr("'text' must be a string"));
  EXPECT_THAT(root.real("number", 0).error().message, HasSubstr("'number' must be a number"));
  EXPECT_THAT(root.flag("flag", false).error().message, HasSubstr("'flag' must be true or false"));
  expect_place(root.texts("list").error(), 4, 14);
  EXPECT_FALSE(root.text("day", "").ok());
  EXPECT_FALSE(root.optional_expr("day").ok());
  EXPECT_THAT(root.tables("text", 1).error().message, HasSubstr("[[text]]"));
  EXPECT_THAT(root.required_text("none").error().message, HasSubstr("'none' is missing"));
}

}  // namespace
}  // namespace lathe
