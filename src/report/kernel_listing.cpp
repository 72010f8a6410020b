#include <fmt/format.h>

#include "report/html.h"
#include "report/line_diff.h"
#include "report/page.h"

namespace lathe {
namespace {

constexpr int kContext = 4;

std::string number(int line) { return line > 0 ? std::to_string(line) : std::string(); }

std::string row(const DiffLine& line) {
  using Kind = DiffLine::Kind;
  const bool added = line.kind == Kind::kAdded, removed = line.kind == Kind::kRemoved;
  return fmt::format("<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                     added     ? " class=\"added\""
                     : removed ? " class=\"removed\""
                               : "",
                     number(line.old_number), number(line.new_number),
                     added     ? "+"
                     : removed ? "−"
                               : "",
                     escape_html(line.text));
}

/// Marks what lies within kContext lines of a change.
std::vector<bool> near_changes(const std::vector<DiffLine>& lines) {
  std::vector<bool> near(lines.size(), false);
  const int count = static_cast<int>(lines.size());
  for (int i = 0; i < count; ++i) {
    if (lines[i].kind == DiffLine::Kind::kSame) continue;
    for (int j = std::max(0, i - kContext); j <= std::min(count - 1, i + kContext); ++j) near[j] = true;
  }
  return near;
}

std::string diff_table(const std::vector<DiffLine>& lines) {
  const std::vector<bool> near = near_changes(lines);
  std::string body;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (near[i]) {
      body += row(lines[i]);
    } else if (i == 0 || near[i - 1]) {
      std::size_t end = i;
      while (end < lines.size() && !near[end]) ++end;
      body += fmt::format("<tr class=\"fold\"><td colspan=\"4\">{} equal lines</td></tr>\n", end - i);
    }
  }
  return "<div class=\"scroll code\"><table class=\"diff\"><caption class=\"hidden\">Line diff: old line, "
         "new line, "
         "change, text</caption><tbody>\n" +
         body + "</tbody></table></div>\n";
}

std::string listing(const std::string& text) {
  return "<pre class=\"code\">" + escape_html(text) + "</pre>\n";
}

}  // namespace

std::string kernel_listing(const RunView& view) {
  if (view.best == nullptr) return "<p class=\"empty\">No kernel has passed.</p>\n";
  const Experience& best = *view.best;
  const std::string whole = listing(best.candidate_text);
  const Experience* parent = view.parent_of(best);
  if (parent == nullptr || parent->candidate_text == best.candidate_text) return whole;
  const auto lines = diff_lines(parent->candidate_text, best.candidate_text);
  int added = 0, removed = 0;
  for (const DiffLine& line : lines) {
    added += line.kind == DiffLine::Kind::kAdded;
    removed += line.kind == DiffLine::Kind::kRemoved;
  }
  const auto ratio = view.speedup(*parent);
  return fmt::format(
             "<p>Against its parent, evaluation {}{}: <span class=\"plus\">{} lines added</span>, "
             "<span class=\"minus\">{} removed</span>{}{}</p>\n",
             parent->sequence + 1, ratio ? " (" + format_ratio(ratio->mid) + ")" : "", added, removed,
             best.lineage.description.empty() ? "" : " – ", escape_html(best.lineage.description)) +
         diff_table(lines) + "<details><summary>The whole kernel</summary>" + whole + "</details>\n";
}

}  // namespace lathe
