#include "cli/arguments.h"

#include <algorithm>
#include <sstream>

#include "cli/console.h"
#include "cli/exit_code.h"

namespace lathe::cli {
namespace {

void refuse_empty(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options())
    if (std::ranges::find(option->results(), "") != option->results().end())
      throw CLI::ValidationError(option->get_name(), "the text is empty; give one, or leave it out");
  for (const CLI::App* chosen : verb.get_subcommands()) refuse_empty(*chosen);
}

}  // namespace

std::optional<int> parse_arguments(CLI::App& app, std::vector<std::string> arguments) {
  std::ranges::reverse(arguments);  // as CLI11 takes them
  try {
    app.parse(std::move(arguments));
    refuse_empty(app);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const int code = app.exit(error, out, err);
    write_standard_output(out.str());
    write_standard_error(err.str());
    return code == 0 ? kSuccess : kUsage;
  }
}

}  // namespace lathe::cli
