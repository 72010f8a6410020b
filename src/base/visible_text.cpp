#include "base/visible_text.h"

#include <fmt/format.h>

#include <array>

namespace lathe {
namespace {

/// `newline` stands for a newline; where it is empty, newlines and tabs are shown like other
/// controls.
std::string visible(std::string_view text, std::string_view newline) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [code, length] = next_code_point(text);
    const bool spacing = code == '\n' || code == '\t';
    if (code == 0xfffd) {
      out += "\xef\xbf\xbd";
    } else if (is_disguising(code) || (spacing && newline.empty())) {
      out += fmt::format("⟨U+{:04X}⟩", code);
    } else if (code == '\n') {
      out += newline;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

std::pair<std::uint32_t, std::size_t> next_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return {0xfffd, 1};
  std::uint32_t code = first & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0xfffd, 1};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::array<std::uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {0xfffd, 1};
  return {code, length};
}

bool is_disguising(std::uint32_t code) {
  const auto between = [&](std::uint32_t low, std::uint32_t high) { return code >= low && code <= high; };
  const bool control = (code < 0x20 && code != '\n' && code != '\t') || between(0x7f, 0x9f);
  const bool direction =
      between(0x202a, 0x202e) || between(0x2066, 0x2069) || between(0x200e, 0x200f) || code == 0x61c;
  const bool separator = between(0x2028, 0x2029);
  const bool no_width = between(0x200b, 0x200d) || between(0x2060, 0x2064) || code == 0xad ||
                        code == 0xfeff || between(0xe0000, 0xe007f);
  return control || direction || separator || no_width;
}

std::string visible_line(std::string_view text) { return visible(text, {}); }

std::string visible_lines(std::string_view text, std::string_view indent) {
  return visible(text, "\n" + std::string(indent));
}

}  // namespace lathe
