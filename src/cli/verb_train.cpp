#include <unistd.h>

#include "cli/console.h"
#include "cli/rl_training.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "model/engine_client.h"

namespace lathe::cli {
namespace {

/// Becomes lathe-torch, which knows the options, shows progress, and takes Ctrl-C itself.
Result<int> become_trainer(const std::vector<std::string>& arguments) {
  LATHE_TRY(const std::string program, find_engine_program());
  std::vector<std::string> words = {program, "train"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return errno_error("cannot start " + program);
}

}  // namespace

void add_train(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand(kTrain.name, kTrain.about);
  verb->prefix_command();
  verb->set_help_flag();
  verb->callback([verb, &run] {
    run = [arguments = verb->remaining()] {
      const auto code = trains_choices(arguments) ? train_choices(arguments) : become_trainer(arguments);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli
