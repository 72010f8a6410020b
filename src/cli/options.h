#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "cli/session.h"

namespace lathe::cli {

/// What to say of wrong arguments: the error and where to look, instead of the whole help.
std::string usage_message(const CLI::App* app, const CLI::Error& error);
/// Numbers as people write them, in decimal. CLI11 alone reads 010 as 8, wraps -1 where a number
/// has no sign, and lets nan pass every range.
CLI::Validator whole_number(std::uint64_t low, std::uint64_t high);
CLI::Validator one_or_more();
CLI::Validator zero_or_more();
CLI::Validator any_seed();
CLI::Validator number(double low, double high);
CLI::Validator above_zero();
CLI::Option* add_store(CLI::App& verb, CommonOptions& options);
CLI::Option* add_json(CLI::App& verb, CommonOptions& options, const std::string& what);
/// As many threads as this process may use processors, at most.
CLI::Option* add_threads(CLI::App& verb, CommonOptions& options);

/// --device and --reduced-jail, for the verbs that evaluate.
CLI::Option* add_device(CLI::App& verb, CommonOptions& options);

using NamedOutput = std::pair<std::string_view, std::string_view>;
/// Refuses arguments by which two options write to one file; an empty one writes nothing.
void check_outputs_differ(std::span<const NamedOutput> outputs);

/// The task of a verb that takes candidates behind it; says so where one of them comes first.
Result<TaskSpec> load_task_of_candidates(const std::string& path);

/// "rows=1024,cols=512"; empty for none.
Result<Dims> parse_numbers(const std::string& text);
/// Makes the shape that --shape names the task's only one; does nothing where it names none.
Status choose_shape(TaskSpec& task, const std::string& shape);

}  // namespace lathe::cli
