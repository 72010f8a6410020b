#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "cli/console.h"
#include "cli/judge.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "gym/gym.h"
#include "record/json.h"
#include "record/verdict_text.h"
#include "report/documents.h"

namespace lathe::cli {
namespace {

struct EvalOptions {
  CommonOptions common;
  std::string task;
  std::vector<std::string> candidates;
  std::string depth = "screen";
};

void print_verdict(const NamedVerdict& named, const std::string& best_baseline) {
  const Verdict& verdict = named.verdict;
  std::string speed;
  if (const auto naive = verdict.speedup("naive"))
    speed += fmt::format("  {:.2f}x naive [{:.2f}, {:.2f}]", naive->mid, naive->low, naive->high);
  if (const auto best = verdict.speedup(best_baseline); best && best_baseline != "naive")
    speed += fmt::format("  {:.2f}x {} [{:.2f}, {:.2f}]", best->mid, best_baseline, best->low, best->high);
  if (verdict.median_ns() > 0) speed += "  " + format_ns(verdict.median_ns());
  const bool host = verdict.provenance.tier == "HOST";
  print("{:<12} {:<18} {}{}{}\n", name(verdict.outcome), verdict.reason, named.candidate, speed,
        host ? "  tier HOST" : "");
  if (verdict.passed() && !verdict.unchecked.empty())
    print("    not checked: {}\n", fmt::join(verdict.unchecked, ", "));
  if (!verdict.passed() && !verdict.detail.empty()) print_block("    ", verdict.detail);
  if (verdict.profiles.empty()) return;
  if (const std::string state = device_state_text(verdict); !state.empty())
    print("    while it was timed: {}\n", state);
  for (const ShapeProfile& profile : verdict.profiles) print_block("  ", profile_text(profile));
}

/// A request for each file, which may not be read or be no candidate.
std::vector<EvaluationRequest> read_candidates(const std::vector<std::string>& paths) {
  std::vector<EvaluationRequest> requests;
  for (const std::string& path : paths) {
    EvaluationRequest& request = requests.emplace_back();
    request.name = path;
    auto text = read_file(path, kMaxCandidateBytes);
    if (text.ok()) request.text = *std::move(text);
    const auto candidate = text.ok() ? parse_candidate(request.text, path) : Result<Candidate>(text.error());
    if (!candidate.ok()) request.unreadable = candidate.error();
  }
  return requests;
}

/// A GPU's kernels are files ending in .cu, a processor's in .cpp, Python's in .py; what others are
/// for, the machine decides.
std::string device_of(const std::vector<std::string>& files) {
  const auto all_end_in = [&](std::string_view ending) {
    return std::ranges::all_of(files, [&](const std::string& file) { return file.ends_with(ending); });
  };
  return all_end_in(".cu") ? "cuda" : all_end_in(".cpp") ? "cpu" : all_end_in(".py") ? "host:cpu" : "auto";
}

Result<int> eval(EvalOptions options) {
  if (options.common.device == "auto") options.common.device = device_of(options.candidates);
  LATHE_TRY(TaskSpec loaded, load_task_of_candidates(options.task));
  auto requests = read_candidates(options.candidates);
  int code = kSuccess;
  for (const EvaluationRequest& request : requests)
    if (request.unreadable) code = fail(*request.unreadable);
  const auto is_unreadable = [](const EvaluationRequest& request) { return request.unreadable.has_value(); };
  if (std::ranges::all_of(requests, is_unreadable)) return code;  // not worth a gym
  LATHE_TRY(const Depth depth, parse_depth(options.depth));
  LATHE_CHECK_OK(check_json_file(options.common.json_file));
  LATHE_TRY(auto store, open_store(options.common));
  ProgressLine progress(loaded.name);
  LATHE_TRY(const auto judge, Judge::open(options.common, store.get(), progress, {.inspect_code = true}));
  LATHE_TRY(loaded, judge->complete(std::move(loaded)));
  const auto task = std::make_shared<const TaskSpec>(std::move(loaded));
  progress.on_event({Severity::kInfo, "eval.prepare", "preparing inputs, references and baselines"});
  Evaluator& evaluator = judge->evaluator();
  LATHE_TRY(const TaskBaselines baselines, evaluator.baselines(task, stop_token()));
  std::map<Ticket, std::size_t> numbers;
  std::vector<NamedVerdict> verdicts;
  const auto take_verdict = [&]() -> Status {
    auto evaluated = evaluator.poll(1);
    if (!evaluated) return Ok{};
    NamedVerdict& named = verdicts[numbers.at(evaluated->ticket)];
    LATHE_TRY(named.verdict, std::move(evaluated->verdict));
    if (named.verdict.outcome == Outcome::kInfra)
      code = std::max(code, int{kMachine});
    else if (!named.verdict.passed() && code == kSuccess)
      code = kNothingPassed;
    if (options.common.json_file != "-") print_verdict(named, baselines.best);
    return Ok{};
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EvaluationRequest& request = requests[i];
    request.task = task;
    request.depth = depth;
    request.cancel = stop_token();
    verdicts.push_back({request.name, {}});
    if (request.unreadable) {
      verdicts.back().verdict = unreadable_verdict(request, *request.unreadable);
      continue;
    }
    auto ticket = evaluator.submit(request);
    for (; !ticket.ok() && ticket.error().code == ErrorCode::kBusy; ticket = evaluator.submit(request))
      LATHE_CHECK_OK(take_verdict());
    if (!ticket.ok()) return ticket.error();
    numbers[*ticket] = i;
  }
  while (evaluator.in_flight() > 0) LATHE_CHECK_OK(take_verdict());
  if (stop_token().cancelled()) return static_cast<int>(kInterrupted);
  LATHE_CHECK_OK(write_json(
      options.common.json_file,
      eval_document(task->name, verdicts, make_extras(*task, judge->device(), judge->peaks(), baselines))));
  return code;
}

}  // namespace

void add_eval(CLI::App& app, Run& run) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* verb = app.add_subcommand("eval", "Build, verify and time candidates for a task");
  verb->add_option("TASK", options->task, "The task's TOML file")->required();
  verb->add_option("CANDIDATE", options->candidates, "Candidate files")->required();
  verb->add_option("--depth", options->depth, "build, verify, screen, final or profile")
      ->check(CLI::IsMember({"build", "verify", "screen", "final", "profile"}));
  add_threads(*verb, options->common);
  add_device(*verb, options->common);
  add_json(*verb, options->common, "the verdicts");
  add_store(*verb, options->common);
  verb->callback([options, &run] {
    run = [options] {
      const auto code = eval(*options);
      return code.ok() ? *code : fail(code.error());
    };
  });
}

}  // namespace lathe::cli
