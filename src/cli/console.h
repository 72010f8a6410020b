#pragma once

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "base/visible_text.h"

/// The only ways in which verbs print. They never throw. Any text may come from a candidate, a
/// compiler or a file's name, so each text among the arguments is shown as visible_line(): what
/// stands at the start of a line is Lathe's own. The format itself is printed as it is.
namespace lathe::cli {

/// Makes standard streams that are closed into ones of /dev/null, so that no file opened later
/// takes their numbers. What is printed to a closed standard output is an error. False where there
/// is no /dev/null.
bool open_standard_streams();

/// As they are. Failed writes to standard output are remembered for finish_output(), those to
/// standard error have nowhere to be told.
void write_standard_output(std::string_view text);
void write_standard_error(std::string_view text);
/// For readers that wait for a line.
void flush_standard_output();

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
  write_standard_output(fmt::format(format, shown(args)...));
}

template <class... Args>
void print_error(fmt::format_string<Shown<Args>...> format, const Args&... args) {
  write_standard_error(fmt::format(format, shown(args)...));
}

/// "lathe: file:line: message" and the hint below; `what` stands before the place.
void print_error(const Error& error, std::string_view what = {});

/// Text of several lines, a compiler's log: every line begins with `indent`.
void print_block(std::string_view indent, std::string_view text);

/// A document for other programs, on standard output: in ASCII.
void print_json(const nlohmann::json& document);

/// Writes out and closes standard output. Returns `code`, or kMachine in place of a success whose
/// results did not arrive; says why unless the reader has closed its end.
int finish_output(int code);

}  // namespace lathe::cli
