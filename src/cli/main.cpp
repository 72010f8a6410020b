#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "cli/console.h"
#include "cli/exit_code.h"
#include "cli/program.h"
#include "sandbox/process.h"

namespace lathe::cli {
namespace {

// Listed here; lathe-serve, a program of its own, does them.
void list_serve(CLI::App& app, Run&) { app.add_subcommand(kServe.name, kServe.about); }
void list_worker(CLI::App& app, Run&) { app.add_subcommand(kWorker.name, kWorker.about); }

/// Returns only where lathe-serve cannot be started.
int become_lathe_serve(char** argv) {
  const auto program = sibling_program("lathe-serve");
  if (!program.ok()) return fail(program.error());
  ::execv(program->c_str(), argv);
  return fail({ErrorCode::kUnavailable,
               fmt::format("cannot start {}, which has this verb: {}", *program, std::strerror(errno)),
               "in a checkout, ./run lathe serve builds it"});
}

bool is_of_lathe_serve(std::string_view verb) { return verb == kServe.name || verb == kWorker.name; }

}  // namespace
}  // namespace lathe::cli

int main(int argc, char** argv) {
  using namespace lathe::cli;
  if (argc > 1 && is_of_lathe_serve(argv[1])) return become_lathe_serve(argv);
  constexpr AddVerb kVerbs[] = {add_optimize, add_eval,  add_tasks,   add_report, add_doctor,
                                add_export,   add_runs,  add_propose, add_build,  add_gemm,
                                add_data,     add_train, add_policy,  list_serve, list_worker};
  return run_program(argc, argv, kVerbs);
}
