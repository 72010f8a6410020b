#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/processors.h"
#include "cli/device_choice.h"
#include "task/bound_task.h"
#include "task/names.h"

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
               : fmt::format("there is no '{}'; {}", extra.front(), did_you_mean(extra.front(), names));
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
  verb.add_flag(
      "--reduced-jail", options.reduced_jail,
      "Where namespaces are forbidden: run kernels for the processor behind Landlock and seccomp alone");
  return verb
      .add_option(
          "--device", options.device,
          "Where kernels run: cpu, cuda (the first NVIDIA GPU that CUDA_VISIBLE_DEVICES leaves), cuda:N "
          "(another), host:cpu (Python candidates), or auto: the GPU where there is one")
      ->check(CLI::Validator(
          [](std::string& text) {
            const auto parsed = parse_device(text);
            return parsed.ok() ? "" : parsed.error().to_string();
          },
          "auto|cpu|cuda|cuda:N|cuda:all|host:cpu"))
      ->capture_default_str();
}

Result<Dims> parse_numbers(const std::string& text) {
  Dims numbers;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string_view digits = entry.substr(std::min(equals + 1, entry.size()));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (equals == 0 || digits.empty() || error != std::errc{} || end != digits.data() + digits.size())
      return invalid(fmt::format("'{}' is not NAME=NUMBER", entry), "write them as rows=1024,cols=512");
    numbers.insert_or_assign(std::string(entry.substr(0, equals)), value);
  }
  return numbers;
}

Status choose_shape(TaskSpec& task, const std::string& shape) {
  if (shape.empty()) return Ok{};
  LATHE_TRY(Dims dims, parse_numbers(shape));
  if (const auto bound = lathe::bind(task, dims); !bound.ok()) return bound.error();
  task.shapes = {{"chosen", std::move(dims)}};
  return Ok{};
}

}  // namespace lathe::cli
