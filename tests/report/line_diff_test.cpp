#include "report/line_diff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace lathe {
namespace {

using Kind = DiffLine::Kind;

std::string rendered(std::string_view before, std::string_view after) {
  std::string text;
  for (const DiffLine& line : diff_lines(before, after)) {
    text += (line.kind == Kind::kSame    ? ' '
             : line.kind == Kind::kAdded ? '+'
                                         : '-') +
            std::string(line.text) + "\n";
  }
  return text;
}

/// Both texts, put together again from the diff.
std::pair<std::string, std::string> sides(const std::vector<DiffLine>& diff) {
  std::string before, after;
  for (const DiffLine& line : diff) {
    if (line.kind != Kind::kAdded) before += std::string(line.text) + "\n";
    if (line.kind != Kind::kRemoved) after += std::string(line.text) + "\n";
  }
  return {before, after};
}

std::size_t edits(const std::vector<DiffLine>& diff) {
  return static_cast<std::size_t>(
      std::count_if(diff.begin(), diff.end(), [](const DiffLine& line) { return line.kind != Kind::kSame; }));
}

/// Length of a shortest edit script by the textbook table.
std::size_t shortest_edit(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t up = row[j];
      row[j] = a[i - 1] == b[j - 1] ? diagonal : std::min(row[j - 1], up) + 1;
      diagonal = up;
    }
  }
  return row.back();
}

std::string as_lines(const std::string& letters) {
  std::string text;
  for (char c : letters) text += std::string(1, c) + "\n";
  return text;
}

TEST(LineDiff, ShowsWhatChangedInOrder) {
  EXPECT_EQ(rendered("a\nb\nc\n", "a\nB\nc\nd\n"), " a\n-b\n+B\n c\n+d\n");
}

TEST(LineDiff, OfEqualTextsChangesNothing) { EXPECT_EQ(edits(diff_lines("x\ny\n", "x\ny\n")), 0u); }

TEST(LineDiff, WithAnEmptyTextIsAllOneSide) {
  EXPECT_EQ(rendered("", "a\n\nb"), "+a\n+\n+b\n");
  EXPECT_EQ(rendered("a\n", ""), "-a\n");
  EXPECT_TRUE(diff_lines("", "").empty());
}

TEST(LineDiff, NumbersLinesOnBothSides) {
  const auto diff = diff_lines("a\nb\n", "b\nc\n");
  ASSERT_EQ(diff.size(), 3u);
  EXPECT_EQ(diff[0].old_number, 1);
  EXPECT_EQ(diff[0].new_number, 0);
  EXPECT_EQ(diff[1].old_number, 2);
  EXPECT_EQ(diff[1].new_number, 1);
  EXPECT_EQ(diff[2].new_number, 2);
}

TEST(LineDiff, IsAShortestScriptThatRebuildsBothTexts) {
  Rng rng(Seed::from_number(3));
  for (int round = 0; round < 300; ++round) {
    std::string a, b;
    for (std::uint64_t i = rng.below(13); i > 0; --i) a += static_cast<char>('a' + rng.below(3));
    for (std::uint64_t i = rng.below(13); i > 0; --i) b += static_cast<char>('a' + rng.below(3));
    const std::string before = as_lines(a), after = as_lines(b);
    const auto diff = diff_lines(before, after);
    EXPECT_EQ(sides(diff), std::pair(before, after));
    EXPECT_EQ(edits(diff), shortest_edit(a, b)) << a << " -> " << b;
  }
}

TEST(LineDiff, OfTextsWithoutAnythingInCommonStaysCheap) {
  std::string before, after;
  for (int i = 0; i < 20'000; ++i) {
    before += "old " + std::to_string(i) + "\n";
    after += "new " + std::to_string(i) + "\n";
  }
  EXPECT_EQ(edits(diff_lines(before, after)), 40'000u);
}

}  // namespace
}  // namespace lathe
