#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <sstream>

#include "base/guard.h"
#include "cli/console.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/verbs.h"

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

int run_program(int argc, char** argv) {
  CLI::App app{"Lathe returns the fastest kernel that it can prove correct."};
  app.name("lathe");
  app.set_version_flag("--version", LATHE_VERSION);
  app.require_subcommand(1);
  app.failure_message(usage_message);
  Run run;
  for (const auto add :
       {add_optimize, add_eval, add_tasks, add_report, add_doctor, add_export, add_runs, add_propose,
        add_build, add_gemm, add_data, add_train, add_policy, add_serve, add_worker})
    add(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const int code = app.exit(error, out, err);
    write_standard_output(out.str());
    write_standard_error(err.str());
    return code == 0 ? kSuccess : kUsage;
  }
  install_signal_handlers();
  return run();
}

}  // namespace
}  // namespace lathe::cli

int main(int argc, char** argv) {
  using namespace lathe::cli;
  if (!open_standard_streams()) return kMachine;
  std::set_terminate(end_at_once);
  const auto code =
      lathe::without_exceptions([&]() -> lathe::Result<int> { return run_program(argc, argv); });
  return finish_output(code.ok() ? *code : fail(code.error()));
}
