#include "cli/program.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "base/guard.h"
#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/options.h"
#include "cli/session.h"

namespace lathe::cli {
namespace {

/// For an exception that nobody could turn into an Error, as in a thread of a library.
[[noreturn]] void end_at_once() {
  const auto thrown = without_exceptions([]() -> Status {
    if (const auto exception = std::current_exception()) std::rethrow_exception(exception);
    return Error{ErrorCode::kInternal, "an assumption of the program does not hold"};
  });
  ::_exit(fail(thrown.error()));
}

int parse_and_run(int argc, char** argv, std::span<const AddVerb> verbs) {
  CLI::App app{"Lathe returns the fastest kernel that it can prove correct."};
  app.name("lathe");
  app.set_version_flag("--version", LATHE_VERSION);
  app.require_subcommand(1);
  app.failure_message(usage_message);
  Run run;
  for (const AddVerb add : verbs) add(app, run);
  if (const auto ended = parse_arguments(app, {argv + 1, argv + argc})) return *ended;
  install_signal_handlers();
  return run();
}

}  // namespace

int run_program(int argc, char** argv, std::span<const AddVerb> verbs) {
  if (!open_standard_streams()) return kMachine;
  std::set_terminate(end_at_once);
  const auto code = without_exceptions([&]() -> Result<int> { return parse_and_run(argc, argv, verbs); });
  return finish_output(code.ok() ? *code : fail(code.error()));
}

}  // namespace lathe::cli
