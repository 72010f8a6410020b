#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "policy/catalog/catalog.h"
#include "report/documents.h"
#include "search/search.h"

namespace lathe::cli {
namespace {

using nlohmann::json;

struct OptimizeOptions {
  CommonOptions common;
  std::vector<std::string> tasks;
  std::string policy = "catalog";
  std::string search = "evolve";
  std::string resume;
  SearchOptions budget;
};

/// What one task's run gave.
struct TaskResult {
  json document;
  std::string report_path;
  bool interrupted = false;
};

/// Ends waiting work as soon as the user asks, whatever the search is waiting for.
class CancelOnStop {
 public:
  explicit CancelOnStop(Evaluator& evaluator)
      : watcher_([&evaluator, this] {
          while (!over_ && !stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
          if (stop_requested()) evaluator.cancel();
        }) {}
  ~CancelOnStop() {
    over_ = true;
    watcher_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread watcher_;
};

std::string new_run_id(const TaskSpec& task) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &parts);
  return fmt::format("{}-{}-{:04x}", stamp, task.name, Rng(Seed::from_system()).below(65536));
}

json config_of(const OptimizeOptions& options) {
  return {{"policy", options.policy},
          {"search", options.search},
          {"evals", options.budget.max_evaluations},
          {"seconds", options.budget.max_seconds},
          {"seed", options.budget.seed},
          {"threads", options.common.threads}};
}

/// A resumed run keeps its own settings; a budget given now replaces the old one.
void apply_config(const json& config, OptimizeOptions& options) {
  options.policy = config.value("policy", options.policy);
  options.search = config.value("search", options.search);
  options.budget.seed = config.value("seed", options.budget.seed);
  options.common.threads = config.value("threads", options.common.threads);
  if (options.budget.max_evaluations > 0 || options.budget.max_seconds > 0) return;
  options.budget.max_evaluations = config.value("evals", 0);
  options.budget.max_seconds = config.value("seconds", 0.0);
}

Result<TaskResult> optimize_run(const TaskSpec& task, const std::string& run, const OptimizeOptions& options,
                                Store& store, Backend& backend) {
  ProgressLine progress(task.name);
  progress.on_event({Severity::kInfo, "optimize.prepare", "preparing inputs, references and baselines"});
  LATHE_TRY(auto evaluator, Evaluator::create(task, backend, {}, progress));
  LATHE_TRY(const DevicePeaks peaks, backend.peaks());
  LATHE_TRY(auto strategy, make_strategy(options.search));
  const auto policy = make_catalog_policy();
  const PolicyContext policy_context{task, backend.device(), peaks};
  const SearchContext context{policy_context, *policy,  *strategy,       *evaluator,
                              store,          progress, stop_requested()};
  const CancelOnStop cancel(*evaluator);
  LATHE_TRY(const SearchSummary summary, run_search(context, run, options.budget));

  TaskResult result;
  result.interrupted = summary.interrupted;
  ReportExtras extras = make_extras(task, backend, evaluator.get());
  extras.seconds = summary.seconds;
  LATHE_CHECK_OK(store.update_run(run, summary.interrupted ? "interrupted" : "done", ""));
  LATHE_TRY(const RunRecord record, store.run(run));
  LATHE_TRY(const auto experiences, store.experiences(run));
  result.document = optimize_document(record, experiences, extras);
  LATHE_CHECK_OK(store.update_run(run, record.status, result.document.dump()));
  LATHE_TRY(const std::string page, render_report(record, experiences, extras));
  result.report_path = fmt::format("{}/reports/{}.html", options.common.store_folder, run);
  LATHE_CHECK_OK(make_directories(options.common.store_folder + "/reports"));
  LATHE_CHECK_OK(write_file_atomically(result.report_path, page));
  return result;
}

/// One row of the final table, from the run's document.
void print_row(const TaskResult& result) {
  const json& document = result.document;
  const json& best = document["best"];
  double naive_ns = 0, peer_ns = 0, floor = 1;
  for (const json& baseline : document["baselines"]) {
    if (baseline["name"] == "naive") naive_ns = baseline["median_ns"];
    if (baseline["name"] == document["best_baseline"]) peer_ns = baseline["median_ns"];
  }
  const std::string peer =
      fmt::format("{} {}", document["best_baseline"].get<std::string>(), format_ns(peer_ns));
  if (best.is_null()) {
    fmt::print("{:<18} {:>10} {:>20} {:>10}\n", document["task"].get<std::string>(), format_ns(naive_ns),
               peer, "none");
    return;
  }
  const double best_ns = best["median_ns"];
  std::vector<double> floors;
  for (const json& work : document["work"])
    if (work["floor_ns"].is_number() && work["floor_ns"].get<double>() > 0)
      floors.push_back(work["floor_ns"]);
  if (!floors.empty()) floor = geometric_mean(floors) / best_ns;
  fmt::print(
      "{:<18} {:>10} {:>20} {:>10} {:>7.2f}x naive, {:.2f}x peer [{:.2f}, {:.2f}] {:>6.0f}% {:>6} {:>6.0f}\n",
      document["task"].get<std::string>(), format_ns(naive_ns), peer, format_ns(best_ns),
      best["speedup"].get<double>(), best["speedup_best"].get<double>(),
      best["speedup_best_low"].get<double>(), best["speedup_best_high"].get<double>(), 100 * floor,
      document["evaluations"].get<int>(), document["seconds"].get<double>());
}

void print_table(const std::vector<TaskResult>& results) {
  fmt::print("\n{:<18} {:>10} {:>20} {:>10} {:<40} {:>7} {:>6} {:>6}\n", "task", "baseline", "best peer",
             "best", " speedup [95% interval]", "of roof", "evals", "s");
  for (const TaskResult& result : results) print_row(result);
  for (const TaskResult& result : results) fmt::print("report: {}\n", result.report_path);
}

struct RunPlan {
  TaskSpec task;
  std::string run;
};

/// The runs to do: one new run a task, or the one to resume.
Result<std::vector<RunPlan>> plan_runs(OptimizeOptions& options, Store& store) {
  std::vector<RunPlan> plans;
  if (!options.resume.empty()) {
    LATHE_TRY(const RunRecord record, store.run(options.resume));
    const json config = json::parse(record.config, nullptr, false);
    if (config.is_discarded())
      return Error{ErrorCode::kCorrupt, "run " + record.id + " has a damaged configuration",
                   "start a new run"};
    apply_config(config, options);
    LATHE_TRY(TaskSpec task,
              parse_task(record.task_text, config.value("task_path", record.task_name + ".toml")));
    LATHE_CHECK_OK(store.update_run(record.id, "running", ""));
    plans.push_back({std::move(task), record.id});
    return plans;
  }
  for (const std::string& path : options.tasks) {
    LATHE_TRY(TaskSpec task, load_task(path));
    json config = config_of(options);
    config["task_path"] = path;
    RunRecord record;
    record.id = new_run_id(task);
    record.task_name = task.name;
    record.task_text = task.text;
    record.task = task.digest;
    record.config = config.dump();
    record.status = "running";
    record.created_unix = unix_seconds();
    LATHE_CHECK_OK(store.create_run(record));
    plans.push_back({std::move(task), record.id});
  }
  return plans;
}

Result<int> optimize(OptimizeOptions options) {
  if (options.common.store_folder.empty()) options.common.store_folder = default_store_folder();
  if (options.tasks.empty() == options.resume.empty())
    return invalid("name tasks to optimise, or a run with --resume", "lathe optimize --help");
  LATHE_TRY(auto store, open_store(options.common));
  LATHE_TRY(const auto plans, plan_runs(options, *store));
  if (options.budget.max_evaluations == 0 && options.budget.max_seconds == 0)
    options.budget.max_evaluations = 100;
  LATHE_TRY(auto backend, open_backend(options.common, store.get()));
  std::vector<TaskResult> results;
  for (const RunPlan& plan : plans) {
    if (stop_requested()) break;
    LATHE_TRY(TaskResult result, optimize_run(plan.task, plan.run, options, *store, *backend));
    if (result.interrupted)
      fmt::print(stderr, "lathe: stopped; go on with: lathe optimize --resume {}\n", plan.run);
    results.push_back(std::move(result));
  }
  json documents = json::array();
  bool all_found = true;
  for (const TaskResult& result : results) {
    documents.push_back(result.document);
    all_found = all_found && !result.document["best"].is_null();
  }
  if (options.common.json_file != "-") print_table(results);
  LATHE_CHECK_OK(
      write_json(options.common.json_file, (documents.size() == 1 ? documents[0] : documents).dump(2)));
  if (stop_requested()) return static_cast<int>(kInterrupted);
  return static_cast<int>(all_found ? kSuccess : kNothingPassed);
}

}  // namespace

void add_optimize(CLI::App& app, Run& run) {
  auto options = std::make_shared<OptimizeOptions>();
  CLI::App* verb = app.add_subcommand("optimize", "Search for the fastest kernel of each task");
  verb->add_option("TASK", options->tasks, "Task files");
  verb->add_option("--policy", options->policy, "Who proposes kernels")->check(CLI::IsMember({"catalog"}));
  verb->add_option("--search", options->search, "How proposals are chosen")
      ->check(CLI::IsMember({"evolve", "random", "best-of-n"}));
  auto* evals = verb->add_option("--evals", options->budget.max_evaluations,
                                 "Evaluations to spend a task (default 100)")
                    ->check(CLI::PositiveNumber);
  verb->add_option("--seconds", options->budget.max_seconds, "Seconds to spend a task")
      ->check(CLI::PositiveNumber)
      ->excludes(evals);
  verb->add_option("--seed", options->budget.seed, "Makes proposals repeatable");
  verb->add_option("--threads", options->common.threads, "Threads for candidates and baselines")
      ->check(CLI::PositiveNumber);
  verb->add_option("--resume", options->resume, "Go on with a run: its id, the start of it, or 'last'");
  verb->add_option("--json", options->common.json_file, "Write the result there; - is standard output");
  verb->add_option("--store", options->common.store_folder,
                   "Lathe's memory (default: $LATHE_STORE, else .lathe)");
  verb->callback([options, &run] {
    run = [options] {
      const auto code = optimize(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli
