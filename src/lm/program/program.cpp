#include "base/guard.h"
#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "lm/program/options.h"

namespace lathe::lm {
namespace {

int run_program(int argc, char** argv) {
  CLI::App app{"Lathe's language-model engine. lathe starts it by itself; these verbs are for trying it."};
  app.name("lathe-torch");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("lathe-torch: ") + error.what() + "\n  hint: lathe-torch --help\n";
  });
  Run run;
  for (const auto add : {add_generate, add_bench, add_logits, add_tokens, add_serve}) add(app, run);
  if (const auto ended = cli::parse_arguments(app, {argv + 1, argv + argc})) return *ended;
  return run();
}

}  // namespace
}  // namespace lathe::lm

int main(int argc, char** argv) {
  using namespace lathe;
  if (!cli::open_standard_streams()) return cli::kMachine;
  const auto code = without_exceptions([&]() -> Result<int> { return lm::run_program(argc, argv); });
  return cli::finish_output(code.ok() ? *code : cli::fail(code.error()));
}
