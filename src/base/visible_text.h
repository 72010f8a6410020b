#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lathe {

/// The code point at the start of `text`, which is not empty, and its length in bytes; U+FFFD and 1
/// for a bad sequence of UTF-8.
std::pair<std::uint32_t, std::size_t> next_code_point(std::string_view text);

/// Whether a character could make text look like another or drive a terminal: control characters
/// other than newline and tab, what changes the direction of writing, separators of lines, and what
/// has no width.
bool is_disguising(std::uint32_t code_point);

/// Untrusted text (a compiler's message, a file's name) for people to read. Both return valid UTF-8
/// without disguising characters: they are shown by their code points, "⟨U+202E⟩", and bad bytes as
/// U+FFFD.
std::string visible_line(std::string_view text);  ///< newlines and tabs too are shown so
/// Newlines and tabs stay; each line after the first begins with `indent`, so that it cannot pass
/// for a line of the program's own.
std::string visible_lines(std::string_view text, std::string_view indent);

}  // namespace lathe
