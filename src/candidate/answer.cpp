#include <string>
#include <string_view>

#include "candidate/candidate.h"

namespace lathe {
namespace {

constexpr std::string_view kFence = "```";

/// Where the line after the one at `from` starts, or the text's end.
std::size_t next_line(std::string_view text, std::size_t from) {
  const std::size_t newline = text.find('\n', from);
  return newline == std::string_view::npos ? text.size() : newline + 1;
}

}  // namespace

Result<Candidate> parse_answer(std::string_view answer, std::string name) {
  std::string_view best;
  for (std::size_t fence = answer.find(kFence); fence != std::string_view::npos;) {
    const std::size_t begin = next_line(answer, fence);
    const std::size_t close = answer.find(kFence, begin);
    const std::string_view block =
        answer.substr(begin, close == std::string_view::npos ? close : close - begin);
    if (starts_with_front_matter(block)) best = block;
    if (close == std::string_view::npos) break;
    fence = answer.find(kFence, next_line(answer, close));
  }
  if (!best.empty()) return parse_candidate(std::string(best), std::move(name));
  if (starts_with_front_matter(answer)) return parse_candidate(std::string(answer), std::move(name));
  return invalid("the answer holds no fenced block that starts with /*lathe", "answer with one code block",
                 {name});
}

}  // namespace lathe
