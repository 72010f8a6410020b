#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string_view>

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

bool has_any(const std::vector<std::string>& arguments, std::initializer_list<std::string_view> words) {
  return std::ranges::find_first_of(arguments, words) != arguments.end();
}

bool names_file(const std::string& argument) {
  std::error_code ignored;
  return !argument.starts_with('-') && std::filesystem::exists(argument, ignored);
}

Result<int> train(const std::vector<std::string>& arguments) {
  if (trains_choices(arguments) || arguments.empty()) return train_choices(arguments);
  const bool asks = has_any(arguments, {"-h", "--help"});
  if (!asks && !has_any(arguments, {"--bench"}) && std::ranges::none_of(arguments, names_file)) {
    const auto is_recipe = [](const std::string& one) { return one.ends_with(".toml"); };
    const auto is_word = [](const std::string& one) { return !one.starts_with('-'); };
    auto word = std::ranges::find_if(arguments, is_recipe);
    if (word == arguments.end()) word = std::ranges::find_if(arguments, is_word);
    return Error{ErrorCode::kNotFound,
                 word == arguments.end() ? "no recipe is named" : "there is no recipe '" + *word + "'",
                 "name a TOML file as in recipes/; lathe train --help lists the options"};
  }
  if (asks && !find_engine_program().ok()) return train_choices(arguments);
  return become_trainer(arguments);
}

}  // namespace

void add_train(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand(kTrain.name, kTrain.about);
  verb->prefix_command();
  verb->set_help_flag();
  verb->callback([verb, &run] {
    run = [arguments = verb->remaining()] {
      const auto code = train(arguments);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli
