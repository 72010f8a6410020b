#include "cli/options.h"

#include <fmt/format.h>

#include "base/processors.h"
#include "task/near_name.h"

namespace lathe::cli {

std::string usage_message(const CLI::App* app, const CLI::Error& error) {
  std::string command = "lathe", text = error.what();
  const CLI::App* verb = app;
  while (!verb->get_subcommands().empty()) {
    verb = verb->get_subcommands().front();
    command += " " + verb->get_name();
  }
  const auto extra = verb->remaining();
  const bool wants_verb = verb->get_require_subcommand_min() > 0;
  if (wants_verb) {
    std::vector<std::string> names;
    for (const CLI::App* known : verb->get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(known->get_name());
    text = extra.empty()
               ? fmt::format("name one of its verbs: {}", fmt::join(names, ", "))
               : fmt::format("there is no '{}'; {}", extra.front(), near_name_hint(extra.front(), names));
  }
  return fmt::format("{}: {}\n  hint: {} --help\n", command, text, command);
}

CLI::Validator one_or_more() {
  return {[](std::string& text) {
            const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
            const bool good = digits && text.size() < 10 && text.find_first_not_of('0') != std::string::npos;
            return good ? "" : fmt::format("'{}' is not a whole number from 1 to 999999999", text);
          },
          "N"};
}

CLI::Option* add_store(CLI::App& verb, CommonOptions& options) {
  return verb.add_option("--store", options.store_folder,
                         "Lathe's memory (default: $LATHE_STORE, else .lathe)");
}

CLI::Option* add_json(CLI::App& verb, CommonOptions& options, const std::string& what) {
  return verb.add_option("--json", options.json_file, "Write " + what + " there; - is standard output");
}

CLI::Option* add_threads(CLI::App& verb, CommonOptions& options) {
  return verb.add_option("--threads", options.threads, "Threads for candidates and baselines")
      ->check(CLI::Range(1, static_cast<int>(usable_processors().size())));
}

CLI::Option* add_device(CLI::App& verb, CommonOptions& options) {
  return verb
      .add_option("--device", options.device,
                  "Where kernels run: cpu, cuda (the first NVIDIA GPU), or auto: the GPU where there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
}

}  // namespace lathe::cli
