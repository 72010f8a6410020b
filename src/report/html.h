#pragma once

#include <string>
#include <string_view>

#include "base/statistics.h"

namespace lathe {

/// Text for HTML and SVG, in elements and in quoted attributes. Bytes that are not UTF-8 become U+FFFD;
/// control characters and direction overrides, which could make code look like what it is not, are shown by
/// their code points.
std::string escape_html(std::string_view text);

/// At most `characters` characters; an ellipsis stands for what was cut.
std::string shorten(std::string_view text, std::size_t characters);

std::string format_ns(double ns);                            ///< "12.3 µs"
std::string format_ratio(double ratio);                      ///< "2.31×"
std::string format_interval(Interval ratio);                 ///< "2.31× [2.25, 2.40]"
std::string format_si(double value, std::string_view unit);  ///< "61.2 GFLOP/s"
std::string format_percent(double share);                    ///< 0.123 -> "12.3%"
std::string format_seconds(double seconds);                  ///< "2 min 05 s"

}  // namespace lathe
