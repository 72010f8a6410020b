#pragma once

#include <CLI/CLI.hpp>

#include "cli/session.h"

namespace lathe::cli {

/// What to say of wrong arguments: the error and where to look, instead of the whole help.
std::string usage_message(const CLI::App* app, const CLI::Error& error);
/// Whole numbers from 1.
CLI::Validator one_or_more();
CLI::Option* add_store(CLI::App& verb, CommonOptions& options);
CLI::Option* add_json(CLI::App& verb, CommonOptions& options, const std::string& what);
/// As many threads as this process may use processors, at most.
CLI::Option* add_threads(CLI::App& verb, CommonOptions& options);

/// --device and --reduced-jail, for the verbs that evaluate.
CLI::Option* add_device(CLI::App& verb, CommonOptions& options);

/// "rows=1024,cols=512"; empty for none.
Result<Dims> parse_numbers(const std::string& text);
/// Makes the shape that --shape names the task's only one; does nothing where it names none.
Status choose_shape(TaskSpec& task, const std::string& shape);

}  // namespace lathe::cli
