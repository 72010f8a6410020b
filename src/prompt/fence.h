#pragma once

#include <string>
#include <string_view>

namespace lathe {

/// Untrusted text (an earlier answer, a compiler's message) as a fenced block that it cannot end:
/// the fence is longer than any run of backticks inside, and what chat templates and reasoning
/// models take for marks of their own ("<|im_end|>", "</think>") is broken by a space. Bytes that
/// are not UTF-8 become U+FFFD, and what people could not see is shown.
std::string fenced(std::string_view text, std::string_view language = {});

/// One line of untrusted text, of at most `max_bytes`, without marks.
std::string quoted_line(std::string_view text, std::size_t max_bytes = 300);

}  // namespace lathe
