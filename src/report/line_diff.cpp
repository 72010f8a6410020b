#include "report/line_diff.h"

#include <algorithm>

namespace lathe {
namespace {

constexpr int kMaxEdits = 2000;

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

using Lines = std::vector<std::string_view>;

/// Myers' forward pass. furthest[d][k + d] is the furthest x on diagonal k = x - y after d edits.
std::vector<std::vector<int>> furthest_points(const Lines& a, const Lines& b) {
  const int n = static_cast<int>(a.size()), m = static_cast<int>(b.size());
  std::vector<std::vector<int>> furthest;
  for (int d = 0; d <= std::min(n + m, kMaxEdits); ++d) {
    std::vector<int> row(2 * d + 1, 0);
    for (int k = -d; k <= d; k += 2) {
      int x = 0;
      if (d > 0) {
        const std::vector<int>& last = furthest.back();
        const auto at = [&](int diagonal) { return last[diagonal + d - 1]; };
        x = k == -d || (k != d && at(k - 1) < at(k + 1)) ? at(k + 1) : at(k - 1) + 1;
      }
      int y = x - k;
      while (x < n && y < m && a[x] == b[y]) ++x, ++y;
      row[k + d] = x;
      if (x >= n && y >= m) {
        furthest.push_back(std::move(row));
        return furthest;
      }
    }
    furthest.push_back(std::move(row));
  }
  return {};
}

using Kind = DiffLine::Kind;

/// Steps from (0, 0) to (n, m), found by walking the rows backwards.
std::vector<Kind> edit_script(const Lines& a, const Lines& b) {
  const auto furthest = furthest_points(a, b);
  int x = static_cast<int>(a.size()), y = static_cast<int>(b.size());
  std::vector<Kind> script;
  if (furthest.empty()) {
    script.assign(static_cast<std::size_t>(y), Kind::kAdded);
    script.insert(script.end(), static_cast<std::size_t>(x), Kind::kRemoved);
  }
  for (int d = static_cast<int>(furthest.size()) - 1; d >= 0; --d) {
    const int k = x - y;
    int from_k = k, from_x = 0;
    if (d > 0) {
      const std::vector<int>& last = furthest[d - 1];
      const auto at = [&](int diagonal) { return last[diagonal + d - 1]; };
      from_k = k == -d || (k != d && at(k - 1) < at(k + 1)) ? k + 1 : k - 1;
      from_x = at(from_k);
    }
    const int snake_x = d == 0 ? 0 : (from_k == k + 1 ? from_x : from_x + 1);
    for (; x > snake_x; --x, --y) script.push_back(Kind::kSame);
    if (d > 0) script.push_back(from_k == k + 1 ? Kind::kAdded : Kind::kRemoved);
    x = from_x;
    y = from_x - from_k;
  }
  std::reverse(script.begin(), script.end());
  return script;
}

}  // namespace

std::vector<DiffLine> diff_lines(std::string_view before, std::string_view after) {
  const Lines a = split_lines(before), b = split_lines(after);
  std::vector<DiffLine> lines;
  int old_number = 0, new_number = 0;
  for (const Kind kind : edit_script(a, b)) {
    if (kind != Kind::kAdded) ++old_number;
    if (kind != Kind::kRemoved) ++new_number;
    lines.push_back({.kind = kind,
                     .old_number = kind == Kind::kAdded ? 0 : old_number,
                     .new_number = kind == Kind::kRemoved ? 0 : new_number,
                     .text = kind == Kind::kAdded ? b[new_number - 1] : a[old_number - 1]});
  }
  return lines;
}

}  // namespace lathe
