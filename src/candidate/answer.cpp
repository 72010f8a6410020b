#include <algorithm>
#include <string>
#include <string_view>

#include "candidate/candidate.h"

namespace lathe {
namespace {

/// Where the line after the one at `from` starts, or the text's end.
std::size_t next_line(std::string_view text, std::size_t from) {
  const std::size_t newline = text.find('\n', from);
  return newline == std::string_view::npos ? text.size() : newline + 1;
}

/// The run of backticks or tildes that begins a line behind at most three blanks; empty for none.
std::string_view fence_of(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos || begin > 3) return {};
  const char mark = line[begin];
  if (mark != '`' && mark != '~') return {};
  const std::size_t end = std::min(line.find_first_not_of(mark, begin), line.size());
  return end - begin >= 3 ? line.substr(begin, end - begin) : std::string_view();
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

/// Whether a line ends the block that `opening` began: as many marks or more, and nothing behind
/// them.
bool closes(std::string_view line, std::string_view opening) {
  const std::string_view fence = fence_of(line);
  if (fence.empty() || fence[0] != opening[0] || fence.size() < opening.size()) return false;
  return is_blank(line.substr(static_cast<std::size_t>(fence.data() - line.data()) + fence.size()));
}

/// What comes after thinking aloud. Of a thought that does not end, nothing does.
std::string_view after_thought(std::string_view answer) {
  constexpr std::string_view kEnd = "</think>";
  const std::size_t end = answer.rfind(kEnd);
  if (end != std::string_view::npos) return answer.substr(end + kEnd.size());
  const std::size_t begin = answer.find("<think>");
  return begin == std::string_view::npos ? answer : answer.substr(0, begin);
}

}  // namespace

std::string candidate_in(std::string_view answer) {
  answer = after_thought(answer);
  std::string_view best, last;
  for (std::size_t at = 0; at < answer.size();) {
    const std::size_t begin = next_line(answer, at);
    const std::string_view opening = fence_of(answer.substr(at, begin - at));
    at = begin;
    if (opening.empty()) continue;
    std::size_t end = begin;
    while (end < answer.size() && !closes(answer.substr(end, next_line(answer, end) - end), opening))
      end = next_line(answer, end);
    const std::string_view block = answer.substr(begin, end - begin);
    if (starts_with_front_matter(block)) best = block;
    if (!is_blank(block)) last = block;
    at = next_line(answer, end);
  }
  if (best.empty()) best = starts_with_front_matter(answer) || last.empty() ? answer : last;
  return std::string(best.substr(0, kMaxCandidateBytes));
}

Result<Candidate> parse_answer(std::string_view answer, std::string name) {
  std::string text = candidate_in(answer);
  if (starts_with_front_matter(text)) return parse_candidate(std::move(text), std::move(name));
  return invalid("the answer holds no fenced block that starts with /*lathe", "answer with one code block",
                 {name});
}

}  // namespace lathe
