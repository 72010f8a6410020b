#include "prompt/fence.h"

#include <algorithm>
#include <array>

#include "base/visible_text.h"

namespace lathe {
namespace {

std::size_t longest_run(std::string_view text, char of) {
  std::size_t longest = 0, run = 0;
  for (const char c : text) longest = std::max(longest, run = c == of ? run + 1 : 0);
  return longest;
}

/// Puts a space behind the "<" of every mark.
std::string without_marks(std::string text) {
  constexpr std::array<std::string_view, 3> kMarks = {"<|", "<think", "</think"};
  for (const std::string_view mark : kMarks)
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 2))
      text.insert(at + 1, " ");
  return text;
}

}  // namespace

std::string fenced(std::string_view text, std::string_view language) {
  const std::string inside = without_marks(visible_lines(text, ""));
  const std::string fence(std::max<std::size_t>(3, longest_run(inside, '`') + 1), '`');
  const bool ends_line = inside.empty() || inside.back() == '\n';
  return fence + std::string(language) + "\n" + inside + (ends_line ? "" : "\n") + fence;
}

std::string quoted_line(std::string_view text, std::size_t max_bytes) {
  const bool cut = text.size() > max_bytes;
  std::string line = without_marks(visible_line(text.substr(0, max_bytes)));
  std::replace(line.begin(), line.end(), '`', '\'');
  return cut ? line + " ..." : line;
}

}  // namespace lathe
