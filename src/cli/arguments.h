#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lathe::cli {

/// Parses what follows the program's name. Where nothing is left to do (--help, wrong arguments)
/// says so, and returns the exit code. An empty text is a wrong argument: a shell's variable that
/// is not set must not name the root's folder, or whatever begins with nothing.
std::optional<int> parse_arguments(CLI::App& app, std::vector<std::string> arguments);

}  // namespace lathe::cli
