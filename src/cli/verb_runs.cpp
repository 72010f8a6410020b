#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/console.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "reward/reward.h"

namespace lathe::cli {
namespace {

struct RunsOptions {
  CommonOptions common;
  std::string run;
  std::string reward;
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
  LATHE_TRY(const auto runs, store->runs(options.limit + 1));
  if (runs.empty()) print("no runs yet; start one with: lathe optimize TASK.toml\n");
  const auto listed = std::min(runs.size(), static_cast<std::size_t>(options.limit));
  for (const RunRecord& run : std::span(runs).first(listed))
    print("{:<44} {:<12} {:>6} evaluations  {} UTC\n", run.id, run.status, run.experiences,
          date_text(run.created_unix));
  if (listed < runs.size()) print("there are older ones: --limit N lists more than {}\n", options.limit);
  return static_cast<int>(kSuccess);
}

/// The peer that a run's speedups are over: the naive build as long as it has not ended.
std::string peer_of(const RunRecord& run) {
  const auto summary = nlohmann::json::parse(run.summary, nullptr, false);
  const auto peer = summary.is_object() ? summary.find("best_baseline") : summary.end();
  return peer != summary.end() && peer->is_string() ? peer->get<std::string>() : "naive";
}

/// The value of a reward; "-" where it has none.
std::string reward_text(const Reward& reward, const Verdict& verdict, const std::string& peer) {
  const auto value = reward.function(verdict, peer);
  return value.ok() ? fmt::format("{:.3f}", *value) : "-";
}

Result<int> show(const RunsOptions& options) {
  std::optional<Reward> reward;
  if (!options.reward.empty()) {
    LATHE_TRY(reward, find_reward(options.reward));
  }
  LATHE_TRY(auto store, open_existing_store(options.common));
  LATHE_TRY(const RunRecord run, store->run(options.run));
  LATHE_TRY(const auto experiences, store->experiences(run.id));
  print("{}  {}  {} UTC\nsettings {}\n\n", run.id, run.status, date_text(run.created_unix), run.config);
  const std::string peer = peer_of(run);
  constexpr std::string_view kRow = "{:>5}  {:<12}  {:<7} {:<12} {:<16} {:>10} {:>9}  {}{}\n";
  if (!experiences.empty())
    print(kRow, "eval", "candidate", "depth", "verdict", "reason", "median", "x naive",
          reward ? fmt::format("{:>7} ", "reward") : "", "made by");
  for (const Experience& experience : experiences) {
    const Verdict& verdict = experience.verdict;
    const auto naive = verdict.speedup("naive");
    print(kRow, experience.sequence + 1, experience.candidate.short_hex(), name(verdict.depth),
          name(verdict.outcome), verdict.reason,
          verdict.median_ns() > 0 ? format_ns(verdict.median_ns()) : "",
          naive ? fmt::format("{:.2f}x", naive->mid) : "",
          reward ? fmt::format("{:>7} ", reward_text(*reward, verdict, peer)) : "",
          experience.lineage.description);
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
      ->check(CLI::Range(1, 1'000'000));
  CLI::App* shown = add("show", "Every evaluation of a run", show);
  shown->add_option("RUN", options->run, "A run's id, the start of it, or 'last'")->required();
  std::string names;
  for (const Reward& reward : rewards()) names += fmt::format("{}{}", names.empty() ? "" : ", ", reward.name);
  shown->add_option("--reward", options->reward, "A column with this reward: " + names);
}

}  // namespace lathe::cli
