#pragma once

#include <string>
#include <string_view>

#include "base/statistics.h"

namespace lathe {

/// Escapes text for HTML and SVG elements and quoted attributes. Invalid UTF-8 becomes U+FFFD.
/// Control characters and bidirectional overrides, which could disguise code, are shown by their
/// code points.
std::string escape_html(std::string_view text);

/// Truncates to at most `characters` characters, the last of which is then an ellipsis.
std::string shorten(std::string_view text, std::size_t characters);

std::string format_ns(double ns);                            ///< "12.3 µs"
std::string format_ratio(double ratio);                      ///< "2.31×"
std::string format_interval(Interval ratio);                 ///< "2.31× [2.25, 2.40]"
std::string format_si(double value, std::string_view unit);  ///< "61.2 GFLOP/s"
std::string format_percent(double share);                    ///< 0.123 -> "12.3%"
std::string format_seconds(double seconds);                  ///< "2 min 05 s"

}  // namespace lathe
