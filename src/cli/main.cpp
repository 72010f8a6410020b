#include <exception>

#include "cli/options.h"
#include "cli/session.h"
#include "cli/verbs.h"

int main(int argc, char** argv) {
  using namespace lathe::cli;
  CLI::App app{"Lathe returns the fastest kernel that it can prove correct."};
  app.name("lathe");
  app.set_version_flag("--version", LATHE_VERSION);
  app.require_subcommand(1);
  app.failure_message(usage_message);
  Run run;
  for (const auto add : {add_optimize, add_eval, add_tasks, add_report, add_doctor, add_export, add_runs,
                         add_propose, add_build})
    add(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSuccess : kUsage;
  }
  install_signal_handlers();
  return run();
}
