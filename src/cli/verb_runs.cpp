#include <fmt/format.h>

#include <ctime>

#include "cli/options.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

struct RunsOptions {
  CommonOptions common;
  std::string run;
  int limit = 20;
};

std::string date_text(std::int64_t unix_time) {
  const std::time_t time = unix_time;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

Result<int> list(const RunsOptions& options) {
  LATHE_TRY(auto store, open_existing_store(options.common));
  LATHE_TRY(const auto runs, store->runs(options.limit));
  if (runs.empty()) fmt::print("no runs yet; start one with: lathe optimize TASK.toml\n");
  for (const RunRecord& run : runs)
    fmt::print("{:<44} {:<12} {:>6} evaluations  {} UTC\n", run.id, run.status, run.experiences,
               date_text(run.created_unix));
  return static_cast<int>(kSuccess);
}

Result<int> show(const RunsOptions& options) {
  LATHE_TRY(auto store, open_existing_store(options.common));
  LATHE_TRY(const RunRecord run, store->run(options.run));
  LATHE_TRY(const auto experiences, store->experiences(run.id));
  fmt::print("{}  {}  {} UTC\nsettings {}\n\n", run.id, run.status, date_text(run.created_unix), run.config);
  for (const Experience& experience : experiences) {
    const Verdict& verdict = experience.verdict;
    const auto naive = verdict.speedup("naive");
    fmt::print("{:>5}  {}  {:<7} {:<12} {:<16} {:>10} {:>9}  {}\n", experience.sequence,
               experience.candidate.short_hex(), name(verdict.depth), name(verdict.outcome), verdict.reason,
               verdict.median_ns() > 0 ? format_ns(verdict.median_ns()) : "",
               naive ? fmt::format("{:.2f}x", naive->mid) : "", experience.lineage.description);
  }
  return static_cast<int>(kSuccess);
}

}  // namespace

void add_runs(CLI::App& app, Run& run) {
  auto options = std::make_shared<RunsOptions>();
  CLI::App* verb = app.add_subcommand("runs", "List and show the runs in the store");
  verb->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, Result<int> (*action)(const RunsOptions&)) {
    CLI::App* sub = verb->add_subcommand(name, help);
    add_store(*sub, options->common);
    sub->callback([options, &run, action] {
      run = [options, action] {
        const auto code = action(*options);
        return code.ok() ? *code : fail(code.error());
      };
    });
    return sub;
  };
  add("list", "The newest runs", list)
      ->add_option("--limit", options->limit, "How many")
      ->check(one_or_more());
  add("show", "Every evaluation of a run", show)
      ->add_option("RUN", options->run, "A run's id, the start of it, or 'last'")
      ->required();
}

}  // namespace lathe::cli
