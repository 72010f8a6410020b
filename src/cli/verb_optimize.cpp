#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/output.h"
#include "cli/console.h"
#include "cli/judge.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/run_plan.h"
#include "cli/verbs.h"
#include "gym/gym.h"
#include "policy/catalog/catalog.h"
#include "record/json.h"
#include "report/documents.h"
#include "report/model_summary.h"
#include "search/search.h"

namespace lathe::cli {
namespace {

using nlohmann::json;

constexpr int kDefaultEvaluations = 100;

/// What one task's run gave.
struct TaskResult {
  json document;
  std::string report_path;
  ModelSummary model;
  std::string failures;  ///< "4 WRONG (nan_mask), 2 BUILD_FAILED (bad_plan)"
  bool interrupted = false;
};

/// Of what did not pass, the most frequent first.
std::string failures_text(const std::vector<Experience>& experiences) {
  std::map<std::string, int> counts;
  for (const Experience& one : experiences)
    if (!one.verdict.passed())
      ++counts[fmt::format("{} ({})", name(one.verdict.outcome), one.verdict.reason)];
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [text, count] : counts) sorted.emplace_back(-count, text);
  std::ranges::sort(sorted);
  std::string text;
  for (const auto& [count, failure] : sorted)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", -count, failure);
  return text;
}

/// Works on one run after another, all before one judge: while a task is searched the next one is
/// prepared.
class Optimizer {
 public:
  Optimizer(const OptimizeOptions& options, const std::string& key, Store& store, Judge& judge,
            ProgressLine& progress)
      : options_(options), key_(key), store_(store), judge_(judge), progress_(progress) {}

  /// `budget` is this run's own, preparation included; `next` may be nullptr.
  Result<TaskResult> work_on(const RunPlan& plan, SearchOptions budget, const RunPlan* next) {
    const std::int64_t begin_ns = steady_clock().now_ns();
    const std::string& run = plan.record.id;
    LATHE_TRY(const RunLock lock, RunLock::take(options_.common.store_folder, run));
    progress_.begin(plan.task->name);
    LATHE_CHECK_OK(check_catalogue(plan));
    LATHE_TRY(const Spent spent, spent_on(plan));
    LATHE_TRY(const auto policy,
              make_named_policy(options_.policy, options_.model,
                                {key_, spent, judge_.device().dialect, judge_.lane(), progress_}));
    progress_.on_event({Severity::kInfo, "optimize.prepare", "preparing inputs, references and baselines"});
    LATHE_TRY(const TaskBaselines baselines, judge_.evaluator().baselines(plan.task, stop_token()));
    if (next) judge_.evaluator().prepare(next->task);
    LATHE_TRY(auto strategy, make_named_strategy(options_.search, options_.model));
    const SearchContext context{{plan.task, judge_.device(), judge_.peaks()},
                                *policy,
                                *strategy,
                                judge_.evaluator(),
                                store_,
                                progress_,
                                stop_token()};
    LATHE_CHECK_OK(begin_run(plan, store_));
    if (budget.total_seconds > 0)
      budget.total_seconds =
          std::max(budget.total_seconds - seconds_since(begin_ns), kLeastSearch * budget.total_seconds);
    LATHE_TRY(const SearchSummary summary, run_search(context, run, budget));
    return finish(plan, summary, baselines);
  }

 private:
  static constexpr double kLeastSearch = 0.25;  // of a run's time, however long its preparation took

  /// That the catalogue has kernels for the task, where nobody else writes any: known at once, and
  /// not after minutes of preparation by a run that nothing can end.
  Status check_catalogue(const RunPlan& plan) {
    if (options_.policy != "catalog") return Ok{};
    const auto proposals = propose_now(
        *make_catalog_policy(),
        {.context = {plan.task, judge_.device(), judge_.peaks()}, .count = 1, .cancel = stop_token()});
    return proposals.ok() ? Status(Ok{}) : proposals.error();
  }

  /// By a model, in earlier sittings of the run.
  Result<Spent> spent_on(const RunPlan& plan) {
    if (!plan.resumed) return Spent{};
    LATHE_TRY(const auto experiences, store_.experiences(plan.record.id));
    const ModelSummary model = model_summary(experiences, "");
    return Spent{model.prompt_tokens + model.answer_tokens, model.usd};
  }

  /// Ends the run in the store and writes its page.
  Result<TaskResult> finish(const RunPlan& plan, const SearchSummary& summary,
                            const TaskBaselines& baselines) {
    const std::string& run = plan.record.id;
    TaskResult result;
    result.interrupted = summary.interrupted;
    ReportExtras extras = make_extras(*plan.task, judge_.device(), judge_.peaks(), baselines);
    extras.seconds = summary.seconds;
    LATHE_TRY(RunRecord record, store_.run(run));
    record.status = summary.interrupted ? "interrupted" : "done";
    LATHE_TRY(const auto experiences, store_.experiences(run));
    result.model = model_summary(experiences, extras.best_baseline);
    result.failures = failures_text(experiences);
    result.document = optimize_document(record, experiences, extras);
    // At once: a run that is done has its result, whenever this process is killed.
    LATHE_CHECK_OK(store_.update_run(run, record.status, json_text(result.document)));
    LATHE_TRY(const std::string page, render_report(record, experiences, extras));
    const std::string folder = options_.common.store_folder + "/reports";
    result.report_path = fmt::format("{}/{}.html", folder, run);
    LATHE_CHECK_OK(make_directories(folder));
    LATHE_CHECK_OK(write_output(result.report_path, page));
    return result;
  }

  const OptimizeOptions& options_;
  const std::string& key_;
  Store& store_;
  Judge& judge_;
  ProgressLine& progress_;
};

/// One row of the final table, from the run's document. Peers' times are those beside the best
/// kernel, by its speedups: between the start of a run and its end the machine's own speed changes.
void print_row(const TaskResult& result) {
  const json& document = result.document;
  const json& best = document["best"];
  double naive_ns = 0, peer_ns = 0, floor = 1;
  for (const json& baseline : document["baselines"]) {
    if (baseline["name"] == "naive") naive_ns = baseline["median_ns"];
    if (baseline["name"] == document["best_baseline"]) peer_ns = baseline["median_ns"];
  }
  if (!best.is_null()) {
    naive_ns = best["median_ns"].get<double>() * best["speedup"].get<double>();
    peer_ns = best["median_ns"].get<double>() * best["speedup_best"].get<double>();
  }
  const std::string peer =
      fmt::format("{} {}", document["best_baseline"].get<std::string>(), format_ns(peer_ns));
  if (best.is_null()) {
    print("{:<18} {:>10} {:>20} {:>10}\n", document["task"].get<std::string>(), format_ns(naive_ns), peer,
          "none");
    return;
  }
  const double best_ns = best["median_ns"];
  std::vector<double> floors;
  for (const json& work : document["work"])
    if (work["floor_ns"].is_number() && work["floor_ns"].get<double>() > 0)
      floors.push_back(work["floor_ns"]);
  if (!floors.empty()) floor = geometric_mean(floors) / best_ns;
  print(
      "{:<18} {:>10} {:>20} {:>10} {:>7.2f}x naive, {:.2f}x peer [{:.2f}, {:.2f}] {:>6.0f}% {:>6} {:>6.0f}\n",
      document["task"].get<std::string>(), format_ns(naive_ns), peer, format_ns(best_ns),
      best["speedup"].get<double>(), best["speedup_best"].get<double>(),
      best["speedup_best_low"].get<double>(), best["speedup_best_high"].get<double>(), 100 * floor,
      document["evaluations"].get<int>(), document["seconds"].get<double>());
}

void print_table(const std::vector<TaskResult>& results) {
  print("\n{:<18} {:>10} {:>20} {:>10} {:<40} {:>7} {:>6} {:>6}\n", "task", "baseline", "best peer", "best",
        " speedup [95% interval]", "of roof", "evals", "s");
  for (const TaskResult& result : results) print_row(result);
  for (const TaskResult& result : results)
    if (result.document["best"].is_null())
      print("{}: no kernel passed: {}\n", result.document["task"].get<std::string>(),
            result.failures.empty() ? "none was evaluated" : result.failures);
  for (const TaskResult& result : results)
    for (const json& peer : result.document["left_out"])
      print("{}: compared without {}\n", result.document["task"].get<std::string>(), peer.get<std::string>());
  for (const TaskResult& result : results) {
    if (!result.model.exists()) continue;
    print("model: {}: {}, {:.0f} s of the device to judge them\n", result.document["task"].get<std::string>(),
          to_text(result.model), result.document["device_seconds"].get<double>());
    if (result.model.conversations > 0) print("       {}\n", turns_text(result.model));
  }
  for (const TaskResult& result : results) print("report: {}\n", result.report_path);
}

/// The runs to do. New tasks are read before a store is made for them.
Result<std::vector<RunPlan>> plan_runs(OptimizeOptions& options, std::unique_ptr<Store>& store) {
  std::vector<RunPlan> plans;
  if (options.resume.empty()) {
    LATHE_TRY(plans, plan_new_runs(options));
    LATHE_TRY(store, open_store(options.common));
    return plans;
  }
  LATHE_TRY(store, open_existing_store(options.common));
  LATHE_TRY(RunPlan plan, plan_resumed_run(options, *store));
  plans.push_back(std::move(plan));
  return plans;
}

void say_how_to_go_on(const std::vector<RunPlan>& plans, std::size_t done, bool begun) {
  const RunPlan& plan = plans[done];
  if (begun || plan.resumed)
    print_error("lathe: stopped; go on with: lathe optimize --resume {}\n", plan.record.id);
  else
    print_error("lathe: stopped before {} was begun\n", plan.task->name);
  for (std::size_t i = done + 1; i < plans.size(); ++i)
    print_error("lathe: stopped before {} was begun\n", plans[i].task->name);
}

/// What all runs gave, and the exit code. A task that cannot be done does not keep others from it.
/// What one run leaves of its share of the total, which began at `begin_ns`, the others have.
Result<int> optimize_all(const std::vector<RunPlan>& plans, const OptimizeOptions& options,
                         std::int64_t begin_ns, Optimizer& optimizer, std::vector<TaskResult>& results) {
  int code = kSuccess;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    SearchOptions budget = options.budget;
    if (budget.total_seconds > 0)
      budget.total_seconds = std::max(
          1.0, (budget.total_seconds - seconds_since(begin_ns)) / static_cast<double>(plans.size() - i));
    auto result = optimizer.work_on(plans[i], budget, i + 1 < plans.size() ? &plans[i + 1] : nullptr);
    if (!result.ok() && result.error().code != ErrorCode::kCancelled) {
      code = fail(result.error());
      continue;
    }
    if (result.ok() && code == kSuccess && result->document["best"].is_null()) code = kNothingPassed;
    const bool interrupted = !result.ok() || result->interrupted;
    if (result.ok()) results.push_back(*std::move(result));
    if (!interrupted) continue;
    say_how_to_go_on(plans, i, result.ok());
    return static_cast<int>(kInterrupted);
  }
  return code;
}

/// A run that is done needs nothing: its result is what the store has.
Result<int> show_finished(const RunPlan& plan, const OptimizeOptions& options) {
  const std::string& run = plan.record.id;
  LATHE_TRY(const json document, parse_json(plan.record.summary, "the result of run " + run));
  LATHE_CHECK_OK(write_json(options.common.json_file, document));
  if (options.common.json_file != "-")
    print("run {} is done; --evals N or --seconds N goes on with it\nreport: {}/reports/{}.html\n", run,
          options.common.store_folder, run);
  const bool has_best = document.is_object() && !document.value("best", json()).is_null();
  return static_cast<int>(has_best ? kSuccess : kNothingPassed);
}

Result<int> optimize(OptimizeOptions options) {
  const std::int64_t begin_ns = steady_clock().now_ns();
  options.common.store_folder = store_folder(options.common);
  LATHE_CHECK_OK(check_json_file(options.common.json_file));
  std::unique_ptr<Store> store;
  LATHE_TRY(auto plans, plan_runs(options, store));
  if (plans.front().finished) return show_finished(plans.front(), options);
  SearchOptions& budget = options.budget;
  if (budget.max_evaluations == 0 && budget.max_seconds == 0 && budget.total_seconds == 0)
    budget.max_evaluations = kDefaultEvaluations;
  LATHE_TRY(const std::string key, take_api_key(options.model));
  if (options.policy != "catalog") budget.in_flight = std::max(budget.in_flight, options.model.concurrency);
  ProgressLine progress;
  LATHE_TRY(const auto judge, Judge::open(options.common, store.get(), progress));
  budget.in_flight = std::max(budget.in_flight, 2 * judge->device().lanes);
  for (RunPlan& plan : plans)
    if (!plan.resumed && options.common.device == "auto") set_device(plan, judge->device().kind);
  std::vector<TaskResult> results;
  Optimizer optimizer(options, key, *store, *judge, progress);
  LATHE_TRY(const int code, optimize_all(plans, options, begin_ns, optimizer, results));
  if (results.empty()) return code;
  if (options.common.json_file != "-") print_table(results);
  json documents = json::array();
  for (const TaskResult& result : results) documents.push_back(result.document);
  LATHE_CHECK_OK(write_json(options.common.json_file, plans.size() == 1 ? documents[0] : documents));
  return code;
}

}  // namespace

void add_optimize(CLI::App& app, Run& run) {
  auto options = std::make_shared<OptimizeOptions>();
  CLI::App* verb = app.add_subcommand("optimize", "Search for the fastest kernel of each task");
  auto* tasks = verb->add_option("TASK", options->tasks, "Task files");
  auto* policy = verb->add_option("--policy", options->policy, "Who proposes kernels")
                     ->check(CLI::IsMember({"catalog", "choices", "openai", "local", "mix"}))
                     ->capture_default_str();
  auto* search = verb->add_option("--search,--strategy", options->search,
                                  "How proposals are chosen (default: evolve; refine where a model writes)")
                     ->check(CLI::IsMember({"evolve", "random", "best-of-n", "refine", "contrast"}));
  auto* evals = verb->add_option("--evals", options->budget.max_evaluations,
                                 "Evaluations to spend a task (default 100)")
                    ->check(one_or_more());
  auto* seconds = verb->add_option("--seconds", options->budget.max_seconds, "Seconds to search each task")
                      ->check(above_zero())
                      ->excludes(evals);
  verb->add_option("--total-seconds", options->budget.total_seconds,
                   "Seconds for all tasks together, preparation and confirmation included")
      ->check(above_zero())
      ->excludes(seconds);
  auto* seed =
      verb->add_option("--seed", options->budget.seed, "Makes proposals repeatable")->check(any_seed());
  auto* threads = add_threads(*verb, options->common);
  auto* device = add_device(*verb, options->common);
  auto* resume =
      verb->add_option("--resume", options->resume, "Go on with a run: its id, the start of it, or 'last'");
  const std::vector<CLI::Option*> model = add_model_options(*verb, options->model);
  add_json(*verb, options->common, "the result");
  add_store(*verb, options->common);
  verb->callback([=, &run] {
    std::vector<CLI::Option*> kept = {tasks, policy, search, seed, threads, device};
    kept.insert(kept.end(), model.begin(), model.end());
    if (options->tasks.empty() && options->resume.empty())
      throw CLI::ParseError("name a TASK to optimise, or a run with --resume", kUsage);
    for (const auto* fixed : kept)
      if (resume->count() > 0 && fixed->count() > 0)
        throw CLI::ParseError(
            "--resume goes on with the run's own task and settings: leave out " + fixed->get_name(), kUsage);
    if (options->policy == "openai" && options->model.endpoint.empty())
      throw CLI::ParseError("--policy openai needs --endpoint URL", kUsage);
    if ((options->policy == "local" || options->policy == "choices") && options->model.model.empty())
      throw CLI::ParseError("--policy " + options->policy + " needs --model FILE", kUsage);
    if (options->policy == "mix" && options->model.endpoint.empty() && options->model.model.empty())
      throw CLI::ParseError("--policy mix needs --endpoint URL or --model FILE", kUsage);
    if (options->search.empty())
      options->search = options->policy == "catalog" || options->policy == "choices" ? "evolve" : "refine";
    run = [options] {
      const auto code = optimize(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli
