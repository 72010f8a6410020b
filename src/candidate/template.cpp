#include "candidate/template.h"

#include <algorithm>
#include <cctype>

namespace lathe {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// A hole of a template: its name, and what follows it.
struct Hole {
  std::string_view name;
  std::string_view rest;
};

/// The hole at the beginning of `text`. Errors: no name, no closing brace.
Result<Hole> read_hole(std::string_view text) {
  const bool braced = text.substr(1).starts_with('{');
  const std::size_t begin = braced ? 2 : 1;
  const std::size_t end = static_cast<std::size_t>(
      std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(), is_name) -
      text.begin());
  if (end == begin || (braced && !text.substr(end).starts_with('}')))
    return Error{ErrorCode::kInternal, "a template has '$' without a name"};
  return Hole{text.substr(begin, end - begin), text.substr(end + (braced ? 1 : 0))};
}

/// The lines of `block`, each behind `indentation`; nothing if it is empty.
std::string as_block(std::string_view block, std::string_view indentation) {
  std::string text;
  while (!block.empty()) {
    const std::size_t end = std::min(block.find('\n'), block.size());
    if (end > 0) text.append(indentation).append(block.substr(0, end));
    text += '\n';
    block.remove_prefix(std::min(block.size(), end + 1));
  }
  return text;
}

/// Finds texts by name and remembers which were used.
class Texts {
 public:
  Texts(const Holes& holes, const Holes& shared) : holes_(holes), shared_(shared), used_(holes.size()) {}

  Result<std::string_view> find(std::string_view name) {
    for (std::size_t i = 0; i < holes_.size(); ++i)
      if (holes_[i].first == name) return used_[i] = true, std::string_view(holes_[i].second);
    for (const auto& [shared, text] : shared_)
      if (shared == name) return std::string_view(text);
    return Error{ErrorCode::kInternal, "nothing fills a template's hole '" + std::string(name) + "'"};
  }

  Status all_used() const {
    for (std::size_t i = 0; i < holes_.size(); ++i)
      if (!used_[i])
        return Error{ErrorCode::kInternal, "a template has no hole '" + std::string(holes_[i].first) + "'"};
    return Ok{};
  }

 private:
  const Holes& holes_;
  const Holes& shared_;
  std::vector<bool> used_;
};

}  // namespace

Result<std::string> try_expand(std::string_view text, const Holes& holes, const Holes& shared) {
  Texts texts(holes, shared);
  if (text.starts_with('\n')) text.remove_prefix(1);
  std::string result;
  while (!text.empty()) {
    const std::size_t at = std::min(text.find('$'), text.size());
    result += text.substr(0, at);
    text.remove_prefix(at);
    if (text.empty()) break;
    LATHE_TRY(const Hole hole, read_hole(text));
    LATHE_TRY(const std::string_view value, texts.find(hole.name));
    text = hole.rest;
    const std::size_t line = result.rfind('\n') + 1;  // npos + 1 is 0
    const bool alone =
        result.find_first_not_of(' ', line) == std::string::npos && (text.empty() || text.starts_with('\n'));
    if (!alone) {
      result += value;
      continue;
    }
    const std::string indentation = result.substr(line);
    result.resize(line);
    result += as_block(value, indentation);
    if (!text.empty()) text.remove_prefix(1);
  }
  LATHE_CHECK_OK(texts.all_used());
  return result;
}

std::string expand(std::string_view text, const Holes& holes, const Holes& shared) {
  Result<std::string> filled = try_expand(text, holes, shared);
  assert(filled.ok());
  return *std::move(filled);
}

std::string with_wide_numbers(std::string_view code) {
  std::string wide;
  for (std::size_t at = 0; at < code.size(); ++at) {
    const auto is_digit = [&](std::size_t i) {
      return std::isdigit(static_cast<unsigned char>(code[i])) != 0;
    };
    const bool begins =
        is_digit(at) && (at == 0 || (!std::isalnum(static_cast<unsigned char>(code[at - 1])) &&
                                     code[at - 1] != '_' && code[at - 1] != '.'));
    if (!begins) {
      wide += code[at];
      continue;
    }
    std::size_t end = at;
    const auto follows = [&](std::size_t i) {
      return i < code.size() && (is_digit(i) || code[i] == '.' || code[i] == 'e' ||
                                 ((code[i] == '-' || code[i] == '+') && code[i - 1] == 'e'));
    };
    while (follows(end)) ++end;
    wide += code.substr(at, end - at);
    at = end < code.size() && code[end] == 'f' ? end : end - 1;
  }
  return wide;
}

std::string indented(std::string_view code) { return as_block(code, "  "); }

}  // namespace lathe
