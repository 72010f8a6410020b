// What a search finds at equal evaluations: every task with every strategy and seed, each time with
// a store of its own but on the same prepared task. Prints one row a run, the winner's speedups
// measured at `final` (at `screen` without confirmations), and how each strategy compares with the
// first.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>

#include "base/statistics.h"
#include "bench/device.h"
#include "gym/gym.h"
#include "policy/catalog/catalog.h"
#include "search/search.h"

namespace lathe {
namespace {

struct Options {
  std::vector<std::string> tasks;
  std::vector<std::string> strategies = {"random", "evolve"};
  int evaluations = 40;
  int seeds = 3;
  int confirmations = 1;
  std::string device = "cpu";
};

struct Scratch {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("lathe-search-bench-{}", ::getpid());
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
};

struct Found {
  int screens = 0;
  std::map<std::string, int> outcomes;
  Interval over_naive, over_peer;  ///< of the winner; 0 while nothing passed
  double median_ns = 0, of_roof = 0;
};

Found summarise(const std::vector<Experience>& experiences, const std::string& peer, Depth depth) {
  Found found;
  for (const Experience& experience : experiences) {
    const Verdict& verdict = experience.verdict;
    if (verdict.depth == Depth::kScreen) {
      ++found.screens;
      ++found.outcomes[std::string(name(verdict.outcome))];
    }
    const auto over_peer = verdict.speedup(peer), over_naive = verdict.speedup("naive");
    if (verdict.depth != depth || !verdict.passed() || !over_peer || !over_naive) continue;
    if (over_peer->low <= found.over_peer.low) continue;
    found.over_peer = *over_peer;
    found.over_naive = *over_naive;
    found.median_ns = verdict.median_ns();
  }
  return found;
}

/// The roofline floor, as the geometric mean over the scored shapes.
double floor_ns(const TaskSpec& task, const DevicePeaks& peaks) {
  std::vector<double> floors;
  for (const NamedShape& shape : task.shapes) {
    const auto bound = bind(task, shape.dims);
    if (!bound.ok()) continue;
    floors.push_back(peaks.floor_ns(*bound));
  }
  return floors.empty() ? 0 : geometric_mean(floors);
}

class SearchBench {
 public:
  SearchBench(const Options& options, Backend& backend, Store& store)
      : options_(options), backend_(backend), store_(store) {}

  Status run(const std::string& path) {
    LATHE_TRY(TaskSpec loaded, load_task(path));
    LATHE_TRY(const DevicePeaks peaks, backend_.peaks());
    const PolicyContext context{std::make_shared<const TaskSpec>(std::move(loaded)), backend_.device(),
                                peaks};
    GymOptions options;
    options.anchors = [&](const TaskSpec&) { return catalog_anchors(context); };
    const auto gym = Gym::start(backend_, options, null_sink());
    const auto evaluator = gym->connect();
    LATHE_TRY(const TaskBaselines baselines, evaluator->baselines(context.task, {}));
    for (int seed = 1; seed <= options_.seeds; ++seed)
      for (const std::string& strategy : options_.strategies)
        LATHE_CHECK_OK(run_one(context, *evaluator, baselines.best, strategy, seed));
    return Ok{};
  }

  void print_comparison() const {
    for (const auto& [strategy, logs] : ratios_) {
      const Interval ratio = signed_rank_interval(logs, 0.05);
      fmt::print("{} against {}: {:.3f}x [{:.3f}, {:.3f}] over {} runs\n", strategy, options_.strategies[0],
                 std::exp(ratio.mid), std::exp(ratio.low), std::exp(ratio.high), logs.size());
    }
  }

 private:
  Status run_one(const PolicyContext& policy_context, Evaluator& evaluator, const std::string& peer,
                 const std::string& strategy_name, int seed) {
    const TaskSpec& task = *policy_context.task;
    RunRecord record;
    record.id = fmt::format("{}-{}-{}", task.name, strategy_name, seed);
    record.task_name = task.name;
    record.task_text = task.text;
    record.task = task.digest;
    record.config = "{}";
    record.status = "running";
    LATHE_CHECK_OK(store_.create_run(record));
    LATHE_TRY(auto strategy, make_strategy(strategy_name));
    const auto policy = make_catalog_policy();
    const CancelToken stop;
    const SearchContext context{policy_context, *policy, *strategy, evaluator, store_, null_sink(), stop};
    SearchOptions search;
    search.max_evaluations = options_.evaluations;
    search.seed = static_cast<std::uint64_t>(seed);
    search.confirmations = options_.confirmations;
    LATHE_TRY(const SearchSummary summary, run_search(context, record.id, search));
    LATHE_TRY(const auto experiences, store_.experiences(record.id));
    Found found = summarise(experiences, peer, options_.confirmations > 0 ? Depth::kFinal : Depth::kScreen);
    found.of_roof = found.median_ns > 0 ? floor_ns(task, policy_context.peaks) / found.median_ns : 0;
    print_row({record.task_name, strategy_name, seed, peer, summary.seconds}, found);
    compare(strategy_name, found);
    return Ok{};
  }

  struct Row {
    std::string task, strategy;
    int seed;
    std::string peer;
    double seconds;
  };
  static void print_row(const Row& row, const Found& found) {
    std::string outcomes;
    for (const auto& [outcome, count] : found.outcomes) outcomes += fmt::format("{} {} ", count, outcome);
    fmt::print(
        "| {} | {} | {} | {} | {}| {:.2f} [{:.2f}, {:.2f}] | {} | {:.2f} [{:.2f}, {:.2f}] | {:.1f} | {:.0f}% "
        "| "
        "{:.0f} |\n",
        row.task, row.strategy, row.seed, found.screens, outcomes, found.over_naive.mid, found.over_naive.low,
        found.over_naive.high, row.peer, found.over_peer.mid, found.over_peer.low, found.over_peer.high,
        found.median_ns * 1e-3, 100 * found.of_roof, row.seconds);
    std::fflush(stdout);
  }

  /// Runs of one seed follow each other, so the machine's slow changes touch them alike.
  void compare(const std::string& strategy, const Found& found) {
    if (strategy == options_.strategies[0])
      first_ = found.over_peer.mid;
    else if (first_ > 0 && found.over_peer.mid > 0)
      ratios_[strategy].push_back(std::log(found.over_peer.mid / first_));
  }

  const Options& options_;
  Backend& backend_;
  Store& store_;
  double first_ = 0;
  std::map<std::string, std::vector<double>> ratios_;  ///< log(strategy / first strategy), same task and seed
};

Status run(const Options& options) {
  const Scratch scratch;
  LATHE_TRY(auto backend, open_device(options.device));
  LATHE_TRY(auto store, Store::open(scratch.folder.string()));
  fmt::print(
      "{}\n\n| task | search | seed | screens | verdicts | over naive | peer | over it | us | of roof | s "
      "|\n",
      backend->device().name);
  fmt::print("|---|---|---|---|---|---|---|---|---|---|---|\n");
  SearchBench bench(options, *backend, *store);
  for (const std::string& task : options.tasks)
    if (const Status status = bench.run(task); !status.ok())
      fmt::print("| {} | | | | {} | | | | | | |\n", task, status.error().message);
  fmt::print("\n");
  bench.print_comparison();
  return Ok{};
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  CLI::App app{"Measures what searches find at equal evaluations"};
  lathe::Options options;
  app.add_option("TASK", options.tasks, "Task files")->required();
  app.add_option("--search", options.strategies, "Strategies; the others are compared with the first")
      ->delimiter(',');
  app.add_option("--evals", options.evaluations, "Screens a run");
  app.add_option("--seeds", options.seeds, "Runs of each task and strategy");
  app.add_option("--confirm", options.confirmations, "Candidates of each run to measure at final");
  lathe::add_device(app, options.device);
  CLI11_PARSE(app, argc, argv);
  const auto status = lathe::run(options);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().to_string());
  return status.ok() ? 0 : 1;
}
