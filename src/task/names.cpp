#include "task/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

namespace lathe {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Letters to insert, to drop, to replace and neighbours to swap, each once, that make one of the
/// other. The case of letters makes no difference.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  const auto same = [&](std::size_t i, std::size_t j) { return lower(a[i - 1]) == lower(b[j - 1]); };
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same(i, j) ? 0 : 1)});
      if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j))
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last.back();
}

constexpr std::array kReserved = std::to_array<std::string_view>(
    {"alignas", "alignof",  "and",      "asm",      "auto",    "bool",   "break",   "case",   "catch",
     "char",    "class",    "const",    "continue", "default", "delete", "do",      "double", "else",
     "enum",    "explicit", "export",   "extern",   "false",   "float",  "for",     "friend", "goto",
     "if",      "inline",   "int",      "long",     "mutable", "new",    "not",     "or",     "private",
     "public",  "register", "restrict", "return",   "short",   "signed", "sizeof",  "static", "struct",
     "switch",  "template", "this",     "throw",    "true",    "try",    "typedef", "union",  "unsigned",
     "using",   "virtual",  "void",     "volatile", "while",   "xor",    "cdiv",    "min",    "max",
     "align",   "begin",    "end"});

}  // namespace

std::string did_you_mean(std::string_view written, std::span<const std::string> allowed) {
  const std::string_view text = written.substr(0, 64);
  std::size_t best_distance = std::max<std::size_t>(1, text.size() / 3) + 1;
  const std::string* best = nullptr;
  for (const std::string& name : allowed) {
    const std::size_t distance = edit_distance(text, name);
    if (distance < best_distance) best_distance = distance, best = &name;
  }
  if (best != nullptr) return fmt::format("did you mean '{}'?", *best);
  return allowed.empty() ? "no name is allowed here" : fmt::format("allowed: {}", fmt::join(allowed, ", "));
}

bool is_usable_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= 64 && letter(text[0]) && !text.starts_with("__") &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || digit(c); }) &&
         std::find(kReserved.begin(), kReserved.end(), text) == kReserved.end();
}

}  // namespace lathe
