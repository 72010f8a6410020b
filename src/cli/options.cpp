#include "cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>

#include "base/fd.h"
#include "base/processors.h"
#include "candidate/candidate.h"
#include "cli/device_choice.h"
#include "cli/exit_code.h"
#include "task/bound_task.h"
#include "task/names.h"

namespace lathe::cli {
namespace {

constexpr int kMostOfAnything = 999'999'999;

/// 010 may mean eight or ten.
bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

std::optional<double> finite_number(const std::string& text) {
  if (has_leading_zero(text)) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

}  // namespace

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

CLI::Validator whole_number(std::uint64_t low, std::uint64_t high) {
  return {[low, high](std::string& text) -> std::string {
            std::uint64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (error == std::errc{} && end == text.data() + text.size() && value >= low && value <= high &&
                !has_leading_zero(text))
              return {};
            return fmt::format("'{}' is not a whole number from {} to {}", text, low, high);
          },
          fmt::format("{}..{}", low, high)};
}

CLI::Validator one_or_more() { return whole_number(1, kMostOfAnything).description("N"); }
CLI::Validator zero_or_more() { return whole_number(0, kMostOfAnything).description("0.."); }
CLI::Validator any_seed() {
  return whole_number(0, std::numeric_limits<std::uint64_t>::max()).description("0..");
}

CLI::Validator number(double low, double high) {
  return {[low, high](std::string& text) -> std::string {
            if (const auto value = finite_number(text); value && *value >= low && *value <= high) return {};
            return fmt::format("'{}' is not a number from {} to {}", text, low, high);
          },
          fmt::format("{}..{}", low, high)};
}

CLI::Validator above_zero() {
  return {[](std::string& text) -> std::string {
            const auto value = finite_number(text);
            if (value && *value > 0 && *value <= kMostOfAnything) return {};
            return fmt::format("'{}' is not a number above 0 and up to {}", text, kMostOfAnything);
          },
          "POSITIVE"};
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
      ->check(whole_number(1, usable_processors().size()));
}

CLI::Option* add_device(CLI::App& verb, CommonOptions& options) {
  verb.add_flag(
      "--reduced-jail", options.reduced_jail,
      "Where namespaces are forbidden: run kernels for the processor behind Landlock and seccomp alone");
  return verb
      .add_option(
          "--device", options.device,
          "Where kernels run: cpu, cuda (the first NVIDIA GPU that CUDA_VISIBLE_DEVICES leaves), cuda:N "
          "(another), host:cpu, host:cuda or host:cuda:N (Python candidates), or auto: the GPU where there "
          "is one. eval, optimize, data make and policy eval also take the address of a lathe serve, "
          "http://HOST:8320")
      ->check(CLI::Validator(
          [](std::string& text) {
            const auto parsed = parse_device(text);
            return parsed.ok() ? "" : parsed.error().to_string();
          },
          "auto|cpu|cuda|cuda:N|cuda:all|host:cpu|host:cuda|URL"))
      ->capture_default_str();
}

void check_outputs_differ(std::span<const NamedOutput> outputs) {
  const auto file = [](std::string_view path) {
    std::error_code code;
    auto whole = std::filesystem::absolute(path, code);
    if (path != "-" && !code) whole = std::filesystem::weakly_canonical(whole, code);
    return path == "-" || code ? std::filesystem::path(path) : whole;
  };
  for (std::size_t i = 0; i < outputs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!outputs[i].second.empty() && !outputs[j].second.empty() &&
          file(outputs[i].second) == file(outputs[j].second))
        throw CLI::ParseError(fmt::format("{} and {} name the same file", outputs[j].first, outputs[i].first),
                              kUsage);
}

Result<TaskSpec> load_task_of_candidates(const std::string& path) {
  auto task = load_task(path);
  if (task.ok()) return task;
  if (const auto text = read_file(path, kMaxCandidateBytes); text.ok() && starts_with_front_matter(*text))
    return invalid("'" + path + "' is a candidate, and the task comes first",
                   "name the task's TOML file before it");
  return task;
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
    if (!numbers.emplace(entry.substr(0, equals), value).second)
      return invalid(fmt::format("'{}' gives '{}' twice", text, entry.substr(0, equals)), "leave one out");
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
