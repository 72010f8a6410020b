#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "base/visible_text.h"

namespace lathe::cli {

/// The only ways in which verbs print. Any text may come from a candidate, a compiler or a file's
/// name, so each text among the arguments is shown as visible_line(): what stands at the start of a
/// line is Lathe's own. The format itself is printed as it is.

template <class T>
decltype(auto) shown(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return visible_line(value);
  else
    return (value);
}
template <class T>
using Shown = decltype(shown(std::declval<const T&>()));

template <class... Args>
void print(fmt::format_string<Shown<Args>...> format, const Args&... args) {
  fmt::print(stdout, format, shown(args)...);
}

template <class... Args>
void print_error(fmt::format_string<Shown<Args>...> format, const Args&... args) {
  fmt::print(stderr, format, shown(args)...);
}

/// "lathe: file:line: message" and the hint below; `what` stands before the place.
void print_error(const Error& error, std::string_view what = {});

/// Text of several lines, a compiler's log: every line begins with `indent`.
void print_block(std::FILE* file, std::string_view indent, std::string_view text);

/// A document for other programs, on standard output: in ASCII.
void print_json(const nlohmann::json& document);

}  // namespace lathe::cli
