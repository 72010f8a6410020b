#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lathe {

/// The texts of a template's holes, by name.
using Holes = std::vector<std::pair<std::string_view, std::string>>;

/// Replaces each `$name` or `${name}` of a kernel template by its text, once: texts are not
/// searched for holes.
///
/// A hole that is alone on its line is a block: each line of its text gets the indentation of the
/// hole, and the line vanishes where the text is empty. Kernels thus read in the source as they
/// will in the candidate. One line break at the template's beginning is dropped, so that a raw
/// string may start on its own line.
///
/// `shared` may hold more than the template asks for; every one of `holes` must be used.
/// Errors: a hole without a text, a text without a hole, `${` without its brace.
Result<std::string> try_expand(std::string_view text, const Holes& holes, const Holes& shared = {});

/// try_expand() for templates that are part of the program, whose errors are the programmer's.
std::string expand(std::string_view text, const Holes& holes, const Holes& shared = {});

/// A formula's numbers as fp64 computes with them: those that are written for fp32, "0.1f", are
/// 1.5e-9 beside it.
std::string with_wide_numbers(std::string_view code);

/// `code` with two more spaces before each line that is not empty.
std::string indented(std::string_view code);

}  // namespace lathe
