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

struct OfAnotherProgram {
  VerbName verb;
  const char* program;
};

// So that who optimises a kernel need not wait until the service and the laboratory are built.
constexpr OfAnotherProgram kElsewhere[] = {{kGemm, "lathe-lab"},    {kData, "lathe-lab"},
                                           {kTrain, "lathe-lab"},   {kPolicy, "lathe-lab"},
                                           {kServe, "lathe-serve"}, {kWorker, "lathe-serve"}};

void list_elsewhere(CLI::App& app, Run&) {
  for (const OfAnotherProgram& one : kElsewhere) app.add_subcommand(one.verb.name, one.verb.about);
}

/// Returns only where the program cannot be started.
int become(const OfAnotherProgram& one, char** argv) {
  const auto program = sibling_program(one.program);
  if (!program.ok()) return fail(program.error());
  ::execv(program->c_str(), argv);
  return fail({ErrorCode::kUnavailable, fmt::format("cannot start {}: {}", *program, std::strerror(errno)),
               fmt::format("in a checkout, ./run lathe {} builds it", one.verb.name)});
}

}  // namespace
}  // namespace lathe::cli

int main(int argc, char** argv) {
  using namespace lathe::cli;
  for (const OfAnotherProgram& one : kElsewhere)
    if (argc > 1 && one.verb.name == std::string_view(argv[1])) return become(one, argv);
  constexpr AddVerb kVerbs[] = {add_optimize, add_eval, add_tasks,   add_report, add_doctor,
                                add_export,   add_runs, add_propose, add_build,  list_elsewhere};
  return run_program(argc, argv, kVerbs);
}
