#include "gym/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/fd.h"
#include "candidate/launch_program.h"
#include "gym/conformance_table.h"
#include "gym/evaluator.h"

namespace lathe {
namespace {

constexpr int kNaiveAttempts = 5;
constexpr double kFaster = 1.15;  // a naive speedup from which on an exploit has gained
constexpr double kNaiveCompileSeconds = 3;

template <class T>
bool contains(const std::vector<T>& items, const T& item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

/// One candidate of the suite on its way through it.
struct Entry {
  Candidate candidate;
  std::string object;  ///< what the gym's compiler made, refused or not
  ConformanceResult result;
};

class Suite {
 public:
  Suite(const std::string& folder, Backend& backend, EventSink& events, const ConformanceOptions& options)
      : folder_(folder), backend_(backend), events_(events), options_(options) {}

  Result<ConformanceReport> run() {
    LATHE_CHECK_OK(load());
    build_objects();
    if (options_.naive) LATHE_CHECK_OK(ask_naive_grader());
    for (const auto& [name, task] : tasks_) LATHE_CHECK_OK(evaluate(name, task));
    ConformanceReport report;
    for (Entry& entry : entries_) report.results.push_back(std::move(entry.result));
    return report;
  }

 private:
  Status load() {
    LATHE_TRY(const auto cases, read_conformance_table(folder_));
    for (const ConformanceCase& spec : cases) {
      const std::string stem = spec.file.substr(0, spec.file.rfind('.'));
      if (!options_.only.empty() && !contains(options_.only, stem)) continue;
      Entry entry;
      entry.result.spec = spec;
      entry.result.skipped = spec.threads > backend_.device().threads;
      LATHE_TRY(std::string text, read_file(folder_ + "/" + spec.file));
      LATHE_TRY(entry.candidate, parse_candidate(std::move(text), spec.file));
      entries_.push_back(std::move(entry));
      if (tasks_.contains(spec.task)) continue;
      LATHE_TRY(TaskSpec task, load_task(folder_ + "/tasks/" + spec.task + ".toml"));
      tasks_.emplace(spec.task, std::move(task));
    }
    return Ok{};
  }

  /// Compiles everything on all cores, so that the evaluators later find the objects in the cache.
  void build_objects() {
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> workers;
    for (int i = 0; i < backend_.device().cores; ++i)
      workers.emplace_back([&] {
        for (std::size_t at; (at = next++) < entries_.size();) {
          Entry& entry = entries_[at];
          const TaskSpec& task = tasks_.at(entry.result.spec.task);
          const auto bound = lathe::bind(task, task.shapes.front().dims);
          if (!bound.ok() || entry.result.skipped) continue;
          auto built = backend_.build(entry.candidate, *bound);
          if (built.ok()) entry.object = std::move(built->artifact.bytes);
        }
      });
    for (std::thread& worker : workers) worker.join();
  }

  /// Forks, so it runs while this process has no other threads of the suite's.
  Status ask_naive_grader() {
    for (const auto& [name, task] : tasks_) {
      NaiveJob job;
      LATHE_TRY(const BoundTask bound, lathe::bind(task, task.shapes.front().dims));
      job.task = &bound;
      job.inputs = generate_inputs(bound, Distribution::kNormal, Seed::from_number(1));
      LATHE_TRY(const Candidate honest, naive_candidate(task));
      LATHE_TRY(const BuildResult built, backend_.build(honest, bound));
      job.honest.object = built.artifact.bytes;
      LATHE_TRY(job.honest.program, compile_plan(honest, bound, backend_.device().facts));
      for (Entry& entry : entries_)
        if (entry.result.spec.task == name && !entry.result.skipped) grade(job, bound, entry);
    }
    return Ok{};
  }

  void grade(NaiveJob job, const BoundTask& bound, Entry& entry) {
    NaiveAnswer& answer = entry.result.naive;
    auto program = compile_plan(entry.candidate, bound, backend_.device().facts);
    if (entry.object.empty()) {
      auto object = compile_naively(entry.candidate.text, kNaiveCompileSeconds);
      if (!object.ok()) answer = {NaiveAnswer::Kind::kHarmed, 0, object.error().message};
      if (object.ok()) entry.object = *std::move(object);
    }
    if (program.ok() && !entry.object.empty()) job.candidate = {entry.object, *std::move(program)};
    // That an exploit can win is what is shown: some of them need luck with the clock or the scheduler.
    for (int attempt = 0; attempt < kNaiveAttempts && !entry.result.naive_as_expected; ++attempt) {
      if (!job.candidate.object.empty()) answer = grade_naively(job);
      entry.result.naive_as_expected = naive_answer_fits(entry.result.spec.naive, answer);
    }
  }

  static bool naive_answer_fits(const std::string& wanted, const NaiveAnswer& answer) {
    const bool faster = answer.kind == NaiveAnswer::Kind::kAccepted && answer.speedup > kFaster;
    return wanted == "any" || wanted == name(answer.kind) || (wanted == "faster" && faster);
  }

  Status evaluate(const std::string& name, const TaskSpec& task) {
    EvaluatorOptions options;
    options.secret = options_.secret.derive(name);
    options.block_timeout_seconds = options_.block_timeout_seconds;
    LATHE_TRY(const auto evaluator, Evaluator::create(task, backend_, options, events_));
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const ConformanceResult& result = entries_[i].result;
      if (result.spec.task == name && !result.skipped)
        evaluator->submit({entries_[i].candidate, result.spec.depth, static_cast<std::int64_t>(i)});
    }
    while (const auto evaluated = evaluator->next()) {
      ConformanceResult& result = entries_[static_cast<std::size_t>(evaluated->tag)].result;
      judge(evaluated->verdict, result);
      report(result);
    }
    return Ok{};
  }

  static void judge(const Verdict& verdict, ConformanceResult& result) {
    result.outcome = verdict.outcome;
    result.reason = verdict.reason;
    result.detail = verdict.detail;
    for (const auto& [stage, seconds] : verdict.stage_seconds)
      if (stage != "queue") result.seconds += seconds;
    for (const CaseEvidence& one : verdict.evidence.cases)
      result.worst_ratio = std::max(result.worst_ratio, one.worst_ratio);
    result.speedup = verdict.speedup("naive");
    const bool gained = verdict.passed() && result.spec.at_most > 0 &&
                        (!result.speedup || result.speedup->low > result.spec.at_most);
    result.as_expected = contains(result.spec.expect, verdict.outcome) &&
                         contains(result.spec.reasons, verdict.reason) && !gained;
  }

  void report(const ConformanceResult& result) {
    const std::string speed = result.speedup ? fmt::format(", {:.2f}x [{:.2f}, {:.2f}]", result.speedup->mid,
                                                           result.speedup->low, result.speedup->high)
                                             : "";
    events_.on_event(
        {result.as_expected ? Severity::kInfo : Severity::kError,
         "conformance.case",
         fmt::format("{} {}: {} {}, worst error {:.2g} of the tolerance{}; naive grader: {}",
                     result.as_expected ? "ok  " : "FAIL", result.spec.file, lathe::name(result.outcome),
                     result.reason, result.worst_ratio, speed, lathe::name(result.naive.kind)),
         {{"file", result.spec.file},
          {"outcome", std::string(lathe::name(result.outcome))},
          {"reason", result.reason}}});
  }

  const std::string& folder_;
  Backend& backend_;
  EventSink& events_;
  const ConformanceOptions& options_;
  std::map<std::string, TaskSpec> tasks_;
  std::vector<Entry> entries_;
};

template <class Test>
int count(const std::vector<ConformanceResult>& results, Test test) {
  return static_cast<int>(std::count_if(results.begin(), results.end(), test));
}

}  // namespace

int ConformanceReport::passed() const {
  return count(results, [](const auto& result) { return result.as_expected; });
}
int ConformanceReport::failed() const { return static_cast<int>(results.size()) - passed() - skipped(); }
int ConformanceReport::skipped() const {
  return count(results, [](const auto& result) { return result.skipped; });
}
int ConformanceReport::fooled() const {
  return count(results, [](const auto& result) { return result.naive_as_expected; });
}

Result<ConformanceReport> run_conformance(const std::string& folder, Backend& backend, EventSink& events,
                                          const ConformanceOptions& options) {
  return Suite(folder, backend, events, options).run();
}

}  // namespace lathe
