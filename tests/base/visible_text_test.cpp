#include "base/visible_text.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(VisibleLine, KeepsOrdinaryTextOfEveryLanguage) {
  for (const char* text : {"", "k.cpp", "größer als 4 µs", "ядро", "核", "🚀 done"})
    EXPECT_EQ(visible_line(text), text);
}

TEST(VisibleLine, StaysOnItsLineAndDrivesNoTerminal) {
  EXPECT_EQ(visible_line("a\nPASS ok"), "a⟨U+000A⟩PASS ok");
  EXPECT_EQ(visible_line("a\rb\tc"), "a⟨U+000D⟩b⟨U+0009⟩c");
  EXPECT_EQ(visible_line("\x1b[2K\x1b[1A"), "⟨U+001B⟩[2K⟨U+001B⟩[1A");
  EXPECT_EQ(visible_line("\xc2\x9b"
                         "2K\x7f"),
            "⟨U+009B⟩2K⟨U+007F⟩");
  EXPECT_EQ(visible_line("a\u2028b\u2029c\u0085"), "a⟨U+2028⟩b⟨U+2029⟩c⟨U+0085⟩");
}

TEST(VisibleLine, ShowsWhatWouldReorderOrHideText) {
  EXPECT_EQ(visible_line("a\u202e\u2066\u200f\u061c"), "a⟨U+202E⟩⟨U+2066⟩⟨U+200F⟩⟨U+061C⟩");
  EXPECT_EQ(visible_line("PA\u200bSS\ufeff\u00ad"), "PA⟨U+200B⟩SS⟨U+FEFF⟩⟨U+00AD⟩");
}

TEST(VisibleLine, IsValidUtf8WhateverTheBytes) {
  EXPECT_EQ(visible_line("a\xff\x80z"), "a\ufffd\ufffdz");
  EXPECT_EQ(visible_line("\xe2\x80"), "\ufffd\ufffd");
  EXPECT_EQ(visible_line("\xc0\x8a"), "\ufffd\ufffd") << "an overlong newline";
}

TEST(VisibleLines, LaterLinesAreIndented) {
  EXPECT_EQ(visible_lines("one\n\ttwo\nPASS", "    "), "one\n    \ttwo\n    PASS");
  EXPECT_EQ(visible_lines("one\rPASS", "    "), "one⟨U+000D⟩PASS");
}

}  // namespace
}  // namespace lathe
