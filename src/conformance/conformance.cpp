#include "conformance/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/fd.h"
#include "base/parallel.h"
#include "baseline/baseline.h"
#include "conformance/naive_exam.h"
#include "conformance/naive_grader.h"
#include "gym/gym.h"
#include "gym/verify.h"
#include "task/names.h"
#include "task/toml_table.h"

namespace lathe {
namespace {

template <class T>
bool contains(const std::vector<T>& items, const T& item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

std::string stem_of(const ConformanceCase& spec) { return spec.file.substr(0, spec.file.rfind('.')); }

/// A string or a list of strings.
Result<std::vector<std::string>> one_or_more(const TomlTable& table, std::string_view key) {
  const TomlValue* value = table.get(key);
  if (value && value->text()) return std::vector{*value->text()};
  LATHE_TRY(auto texts, table.texts(key));
  if (texts.empty()) return invalid("'" + std::string(key) + "' is missing", {}, table.where());
  return texts;
}

Result<ConformanceCase> read_case(const TomlTable& table) {
  LATHE_CHECK_OK(table.allow_only(
      {"file", "class", "task", "expect", "reason", "depth", "at_most", "over", "threads", "alone", "naive"},
      "a conformance case"));
  ConformanceCase result;
  LATHE_TRY(result.file, table.required_text("file"));
  LATHE_TRY(result.class_name, table.required_text("class"));
  if (!contains(conformance_classes(), result.class_name))
    return invalid("unknown class '" + result.class_name + "'",
                   did_you_mean(result.class_name, conformance_classes()), table.where("class"));
  LATHE_TRY(result.task, table.required_text("task"));
  LATHE_TRY(const auto outcomes, one_or_more(table, "expect"));
  for (const std::string& outcome : outcomes) {
    LATHE_TRY(const Outcome parsed, parse_outcome(outcome));
    result.expect.push_back(parsed);
  }
  LATHE_TRY(result.reasons, one_or_more(table, "reason"));
  LATHE_TRY(const std::string depth, table.choice("depth", {"verify", "screen", "final"}));
  LATHE_TRY(result.depth, parse_depth(depth));
  LATHE_TRY(result.at_most, table.real("at_most", 0));
  LATHE_TRY(result.over, table.text("over", ""));
  LATHE_TRY(const double threads, table.real("threads", 1));
  result.threads = static_cast<int>(threads);
  LATHE_TRY(result.alone, table.flag("alone", false));
  LATHE_TRY(result.naive, table.choice("naive", {"accepted", "faster", "harmed", "any"}));
  return result;
}

constexpr int kNaiveAttempts = 5;
constexpr double kFaster = 1.15;  // the naive speedup from which on an exploit counts as faster

/// A candidate's progress through the suite.
struct Entry {
  Candidate candidate;
  std::string object;  ///< the compiler's output, even if the gym refuses it
  ConformanceResult result;
};

/// The kernel that runs after a candidate that crashed or hung, and must not suffer from it.
class NextKernel {
 public:
  static Result<NextKernel> make(const TaskSpec& task, Backend& backend) {
    NextKernel next(backend);
    LATHE_TRY(const BoundTask bound, lathe::bind(task, task.shapes.front().dims));
    LATHE_TRY(next.candidate_, naive_candidate(task, backend.device().dialect));
    LATHE_TRY(BuildResult built, backend.build(next.candidate_, bound));
    next.artifact_ = std::move(built.artifact);
    LATHE_TRY(const auto reference, backend.make_reference(task));
    LATHE_TRY(next.workload_,
              make_verify_workload(backend, *reference, bound, Seed::from_number(1), Coverage::kMostTelling));
    return next;
  }

  /// The time until its first block has run.
  Result<double> seconds() const {
    const auto begin_ns = steady_clock().now_ns();
    LATHE_TRY(const auto session, backend_->open(candidate_, artifact_, workload_));
    BlockRequest request;
    request.trials = {0};
    const Finding finding = judge_block(session->run(request), *workload_, request.trials);
    if (!finding.passed())
      return Error{ErrorCode::kUnavailable,
                   "the device does not recover: " + finding.reason + " " + finding.detail};
    return seconds_since(begin_ns);
  }

 private:
  explicit NextKernel(Backend& backend) : backend_(&backend) {}

  Backend* backend_;
  Candidate candidate_;
  Artifact artifact_;
  std::shared_ptr<const Workload> workload_;
};

class Suite {
 public:
  Suite(const std::string& folder, Backend& backend, EventSink& events, const ConformanceOptions& options)
      : folder_(folder),
        backend_(backend),
        events_(events),
        options_(options),
        own_grader_(make_naive_grader()),
        grader_(options.grader ? *options.grader : *own_grader_) {}

  Result<ConformanceReport> run() {
    LATHE_CHECK_OK(load());
    build_objects();
    if (options_.naive) LATHE_CHECK_OK(ask_naive_grader());
    std::optional<Examiner> next;
    for (auto it = tasks_.begin(); it != tasks_.end(); ++it) {
      const Examiner examiner = next ? *std::move(next) : start_gym(it->first, it->second, 0);
      next.reset();
      if (const auto later = std::next(it); later != tasks_.end())
        next = start_gym(later->first, later->second, 0);
      LATHE_CHECK_OK(evaluate(it->first, it->second, examiner));
      for (int time = 1; time < options_.times; ++time)
        LATHE_CHECK_OK(evaluate_again(it->first, start_gym(it->first, it->second, time)));
    }
    compare_with_twins();
    ConformanceReport report;
    for (Entry& entry : entries_) report.results.push_back(std::move(entry.result));
    return report;
  }

 private:
  /// What the suite's folder lacks it shares with the folder above.
  std::string path_of(const std::string& file) const {
    const std::string own = folder_ + "/" + file, shared = folder_ + "/../" + file;
    std::error_code unreadable;
    return !std::filesystem::exists(own, unreadable) && std::filesystem::exists(shared, unreadable) ? shared
                                                                                                    : own;
  }

  /// A misspelt name must not pass for a suite without failures.
  Status check_chosen(const std::vector<ConformanceCase>& cases) const {
    std::vector<std::string> stems;
    for (const ConformanceCase& spec : cases) stems.push_back(stem_of(spec));
    for (const std::string& name : options_.only)
      if (!contains(stems, name))
        return Error{ErrorCode::kNotFound, "there is no '" + name + "' in " + folder_ + "/expected.toml",
                     did_you_mean(name, stems)};
    return Ok{};
  }

  Status load() {
    LATHE_TRY(const auto cases, read_conformance_table(folder_));
    LATHE_CHECK_OK(check_chosen(cases));
    for (const ConformanceCase& spec : cases) {
      const std::string stem = stem_of(spec);
      if (!options_.only.empty() && !contains(options_.only, stem)) continue;
      Entry entry;
      entry.result.spec = spec;
      const int threads = backend_.device().threads;
      entry.result.skipped = spec.threads > threads || (spec.alone && threads > 1);
      LATHE_TRY(std::string text, read_file(path_of(spec.file)));
      LATHE_TRY(entry.candidate, parse_candidate(std::move(text), spec.file));
      entries_.push_back(std::move(entry));
      if (tasks_.contains(spec.task)) continue;
      LATHE_TRY(TaskSpec task, load_task(path_of("tasks/" + spec.task + ".toml")));
      tasks_.emplace(spec.task, std::move(task));
    }
    return Ok{};
  }

  /// Compiles everything on all cores, so that the evaluators later find the objects in the cache.
  void build_objects() {
    (void)for_each_index(static_cast<int>(entries_.size()), backend_.device().cores, [&](int i) -> Status {
      Entry& entry = entries_[static_cast<std::size_t>(i)];
      const TaskSpec& task = tasks_.at(entry.result.spec.task);
      const auto bound = lathe::bind(task, task.shapes.front().dims);
      if (!bound.ok() || entry.result.skipped || options_.cancel.cancelled()) return Ok{};
      auto built = backend_.build(entry.candidate, *bound, options_.cancel);
      if (built.ok()) entry.object = std::move(built->artifact.bytes);
      return Ok{};
    });
  }

  Result<Candidate> honest_peer(const std::string& name, const TaskSpec& task) const {
    if (auto text = read_file(folder_ + "/peers/" + name + ".cu"); text.ok())
      return parse_candidate(*std::move(text), name);
    return naive_candidate(task, backend_.device().dialect);
  }

  /// The grader may fork, so this runs while the suite has no other threads.
  Status ask_naive_grader() {
    for (const auto& [name, task] : tasks_) {
      LATHE_CHECK_OK(check_stop());
      LATHE_TRY(const Candidate honest, honest_peer(name, task));
      LATHE_TRY(const NaiveExam exam, NaiveExam::create(task, backend_, honest));
      for (Entry& entry : entries_) {
        LATHE_CHECK_OK(check_stop());
        if (entry.result.spec.task == name && !entry.result.skipped) grade(exam, entry);
      }
    }
    return Ok{};
  }

  void grade(const NaiveExam& exam, Entry& entry) {
    // One success is enough: some exploits need luck with the clock or the scheduler.
    for (int attempt = 0; attempt < kNaiveAttempts && !entry.result.naive_as_expected; ++attempt) {
      entry.result.naive = exam.ask(grader_, entry.candidate, entry.object);
      entry.result.naive_as_expected = naive_answer_fits(entry.result.spec.naive, entry.result.naive);
      if (entry.object.empty() && entry.candidate.has_plan()) break;  // it does not compile
    }
  }

  static bool naive_answer_fits(const std::string& wanted, const NaiveAnswer& answer) {
    const bool faster = answer.kind == NaiveAnswer::Kind::kAccepted && answer.speedup > kFaster;
    return wanted == "any" || wanted == name(answer.kind) || (wanted == "faster" && faster);
  }

  Status check_stop() const {
    if (!options_.cancel.cancelled()) return Ok{};
    return Error{ErrorCode::kCancelled, "stopped before the suite's end"};
  }

  /// A gym for one task.
  struct Examiner {
    std::unique_ptr<Gym> gym;
    std::unique_ptr<Evaluator> evaluator;
    std::shared_ptr<const TaskSpec> task;
  };

  /// Begins to prepare the task anew, with other hidden shapes and other inputs, while the one
  /// before is still examined.
  Examiner start_gym(const std::string& name, const TaskSpec& task, int time) {
    GymOptions options;
    options.cancel = options_.cancel;
    options.secret = options_.secret.derive(name, static_cast<std::uint64_t>(time));
    options.block_timeout_seconds = options_.block_timeout_seconds;
    Examiner examiner{Gym::start(backend_, options, events_), {}, std::make_shared<const TaskSpec>(task)};
    examiner.evaluator = examiner.gym->connect();
    examiner.evaluator->prepare(examiner.task);
    return examiner;
  }

  static Result<Verdict> examine(const Examiner& examiner, Entry& entry) {
    auto verdict = evaluate_alone(*examiner.evaluator, {.task = examiner.task,
                                                        .text = entry.candidate.text,
                                                        .name = entry.candidate.name,
                                                        .depth = entry.result.spec.depth});
    ++entry.result.examined;
    if (verdict.ok() && verdict->passed() && entry.result.spec.must_be_refused()) ++entry.result.let_pass;
    return verdict;
  }

  Status evaluate(const std::string& name, const TaskSpec& task, const Examiner& examiner) {
    LATHE_CHECK_OK(check_stop());
    LATHE_TRY(const NextKernel next, NextKernel::make(task, backend_));
    for (Entry& entry : entries_) {
      ConformanceResult& result = entry.result;
      if (result.spec.task != name || result.skipped) continue;
      const auto verdict = examine(examiner, entry);
      LATHE_CHECK_OK(check_stop());
      if (verdict.ok())
        judge(*verdict, result);
      else
        result.reason = "no_verdict", result.detail = verdict.error().to_string();
      if (result.outcome == Outcome::kCrash || result.outcome == Outcome::kTimeout) {
        LATHE_TRY(result.recovery_seconds, next.seconds());
      }
      report(result);
    }
    return Ok{};
  }

  /// What is caught by chance passes one of several examinations.
  Status evaluate_again(const std::string& name, const Examiner& examiner) {
    for (Entry& entry : entries_) {
      ConformanceResult& result = entry.result;
      if (result.spec.task != name || result.skipped || !result.spec.must_be_refused()) continue;
      const int before = result.let_pass;
      (void)examine(examiner, entry);
      LATHE_CHECK_OK(check_stop());
      if (result.let_pass == before) continue;
      result.as_expected = false;
      report_let_pass(result);
    }
    return Ok{};
  }

  static void judge(const Verdict& verdict, ConformanceResult& result) {
    result.outcome = verdict.outcome;
    result.reason = verdict.reason;
    result.detail = verdict.detail;
    for (const auto& [stage, seconds] : verdict.stage_seconds)
      if (stage != "queue" && stage != "prepare") result.seconds += seconds;
    for (const CaseEvidence& one : verdict.evidence.cases)
      result.worst_ratio = std::max(result.worst_ratio, one.worst_ratio);
    if (const auto unseen = verdict.profile.find("unseen_over_usual"); unseen != verdict.profile.end())
      result.unseen_over_usual = unseen->second;
    result.speedup = verdict.speedup("naive");
    const bool gained = verdict.passed() && result.spec.at_most > 0 && result.spec.over.empty() &&
                        (!result.speedup || result.speedup->low > result.spec.at_most);
    result.as_expected = contains(result.spec.expect, verdict.outcome) &&
                         contains(result.spec.reasons, verdict.reason) && !gained;
  }

  /// A trick that is not refused must gain nothing over the honest kernel that it wraps.
  void compare_with_twins() {
    for (Entry& entry : entries_) {
      ConformanceResult& result = entry.result;
      if (result.spec.over.empty() || !result.speedup) continue;
      const auto twin = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& other) {
        return other.result.spec.file == result.spec.over;
      });
      if (twin == entries_.end() || !twin->result.speedup) continue;
      result.over_twin = result.speedup->mid / twin->result.speedup->mid;
      result.as_expected = result.as_expected && result.over_twin <= result.spec.at_most;
    }
  }

  void report(const ConformanceResult& result) {
    const std::string speed = result.speedup ? fmt::format(", {:.2f}x [{:.2f}, {:.2f}]", result.speedup->mid,
                                                           result.speedup->low, result.speedup->high)
                                             : "";
    const std::string next = result.recovery_seconds > 0
                                 ? fmt::format(", next kernel after {:.2f} s", result.recovery_seconds)
                                 : "";
    events_.on_event(
        {result.as_expected ? Severity::kInfo : Severity::kError,
         "conformance.case",
         fmt::format("{} {}: {} {}, worst error {:.2g} of the tolerance{}{}; naive grader: {}",
                     result.as_expected ? "ok  " : "FAIL", result.spec.file, lathe::name(result.outcome),
                     result.reason, result.worst_ratio, speed, next, lathe::name(result.naive.kind)),
         {{"file", result.spec.file},
          {"outcome", std::string(lathe::name(result.outcome))},
          {"reason", result.reason}}});
  }

  void report_let_pass(const ConformanceResult& result) {
    events_.on_event({Severity::kError,
                      "conformance.case",
                      fmt::format("FAIL {}: let pass in {} of {} examinations", result.spec.file,
                                  result.let_pass, result.examined),
                      {{"file", result.spec.file}}});
  }

  const std::string& folder_;
  Backend& backend_;
  EventSink& events_;
  const ConformanceOptions& options_;
  std::unique_ptr<NaiveGrader> own_grader_;
  NaiveGrader& grader_;
  std::map<std::string, TaskSpec> tasks_;
  std::vector<Entry> entries_;
};

template <class Test>
int count(const std::vector<ConformanceResult>& results, Test test) {
  return static_cast<int>(std::count_if(results.begin(), results.end(), test));
}

}  // namespace

const std::vector<std::string>& conformance_classes() {
  static const std::vector<std::string> kClasses = {"work left out",
                                                    "memory that outlives a call",
                                                    "clock",
                                                    "recognised exam",
                                                    "numerically unstable",
                                                    "low precision",
                                                    "wrong for some values",
                                                    "hidden shapes",
                                                    "stolen answers",
                                                    "memory out of bounds",
                                                    "jail escape",
                                                    "forged verdict",
                                                    "compiler and loader",
                                                    "exhausted resources",
                                                    "decoys",
                                                    "ordinary mistakes",
                                                    "honest kernels"};
  return kClasses;
}

bool ConformanceCase::must_be_refused() const { return !contains(expect, Outcome::kPass); }

Result<std::vector<ConformanceCase>> read_conformance_table(const std::string& folder) {
  constexpr std::size_t kMostCases = 1000;
  const std::string path = folder + "/expected.toml";
  LATHE_TRY(const std::string text, read_file(path));
  LATHE_TRY(const TomlDocument document, TomlDocument::parse(text, {path}));
  const TomlTable root = document.root();
  LATHE_CHECK_OK(root.allow_only({"case"}, "the conformance table"));
  LATHE_TRY(const auto tables, root.tables("case", kMostCases));
  std::vector<ConformanceCase> cases;
  for (const TomlTable& table : tables) {
    LATHE_TRY(ConformanceCase one, read_case(table));
    cases.push_back(std::move(one));
  }
  return cases;
}

int ConformanceReport::passed() const {
  return count(results, [](const auto& result) { return result.as_expected; });
}
int ConformanceReport::failed() const { return static_cast<int>(results.size()) - passed() - skipped(); }
int ConformanceReport::skipped() const {
  return count(results, [](const auto& result) { return result.skipped; });
}
double ConformanceReport::worst_recovery_seconds() const {
  double worst = 0;
  for (const ConformanceResult& result : results) worst = std::max(worst, result.recovery_seconds);
  return worst;
}
std::vector<ClassTally> ConformanceReport::by_class() const {
  std::vector<ClassTally> tallies;
  for (const std::string& name : conformance_classes()) {
    ClassTally tally{name};
    for (const ConformanceResult& result : results) {
      if (result.spec.class_name != name) continue;
      if (result.skipped)
        ++tally.skipped;
      else if (result.as_expected)
        ++tally.held;
      else
        tally.missed.push_back(stem_of(result.spec));
    }
    if (tally.held + tally.skipped > 0 || !tally.missed.empty()) tallies.push_back(std::move(tally));
  }
  return tallies;
}
int ConformanceReport::fooled() const {
  return count(results, [](const auto& result) { return result.naive_as_expected; });
}

Result<ConformanceReport> run_conformance(const std::string& folder, Backend& backend, EventSink& events,
                                          const ConformanceOptions& options) {
  return Suite(folder, backend, events, options).run();
}

}  // namespace lathe
