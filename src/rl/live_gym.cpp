#include "rl/live_gym.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "gym/cancellable.h"

namespace lathe::rl {
namespace {

constexpr double kBetweenLooks = 0.05;    // at the cancel token, in seconds
constexpr double kJudgingSeconds = 1800;  // of a step's answers, before the gym counts as stuck

/// Of what nothing is known.
Verdict lost(const TaskSpec& task, std::string_view text, const Error& why) {
  return {.outcome = Outcome::kInfra,
          .reason = "no_verdict",
          .detail = why.message,
          .depth = Depth::kScreen,
          .candidate = digest_of(text),
          .task = task.digest};
}

}  // namespace

LiveGym::LiveGym(std::vector<std::shared_ptr<const TaskSpec>> tasks, Evaluator& evaluator, CancelToken cancel)
    : tasks_(std::move(tasks)), evaluator_(evaluator), cancel_(std::move(cancel)), peers_(tasks_.size()) {}

Result<std::vector<Verdict>> LiveGym::judge(std::span<const Question> questions, const Seed&) {
  std::vector<Case> cases;
  std::vector<std::size_t> case_of;
  std::map<std::tuple<std::size_t, std::string_view, bool>, std::size_t> known;
  for (const Question& question : questions) {
    const auto [found, fresh] =
        known.try_emplace({question.task, question.text, question.unreadable != nullptr}, cases.size());
    if (fresh) cases.push_back({&question});
    case_of.push_back(found->second);
  }
  for (std::size_t next = 0; next < cases.size() || !under_way_.empty();) {
    if (cancel_.cancelled()) {
      withdraw();
      return cancelled_error();
    }
    if (next < cases.size()) {
      const Status submitted = submit(cases[next], next);
      if (!submitted.ok() && submitted.error().code == ErrorCode::kBusy && !under_way_.empty()) {
        take(cases, kBetweenLooks);
        continue;
      }
      if (!submitted.ok()) cases[next].verdict = submitted.error();
      ++next;
      continue;
    }
    take(cases, kBetweenLooks);
  }
  LATHE_CHECK_OK(find_peers(cases));
  const auto nobody_answers = [](const Case& one) {
    if (one.verdict.ok()) return false;
    const ErrorCode code = one.verdict.error().code;
    return code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout;
  };
  if (!cases.empty() && std::ranges::all_of(cases, nobody_answers)) return cases.front().verdict.error();
  std::vector<Verdict> verdicts;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Result<Verdict>& verdict = cases[case_of[i]].verdict;
    verdicts.push_back(verdict.ok() ? *verdict
                                    : lost(*tasks_[questions[i].task], questions[i].text, verdict.error()));
  }
  return verdicts;
}

Status LiveGym::submit(const Case& one, std::size_t number) {
  const Question& question = *one.question;
  EvaluationRequest request{.task = tasks_[question.task],
                            .text = std::string(question.text),
                            .depth = Depth::kScreen,
                            .deadline_seconds = kJudgingSeconds,
                            .cancel = cancel_};
  if (question.unreadable != nullptr) request.unreadable = *question.unreadable;
  LATHE_TRY(const Ticket ticket, evaluator_.submit(std::move(request)));
  under_way_.emplace_back(ticket, number);
  return Ok{};
}

/// The next verdict, if one comes in time.
void LiveGym::take(std::vector<Case>& cases, double patience_seconds) {
  std::optional<Evaluated> evaluated = evaluator_.poll(patience_seconds);
  if (!evaluated) return;
  const auto found = std::ranges::find(under_way_, evaluated->ticket, &std::pair<Ticket, std::size_t>::first);
  if (found == under_way_.end()) return;
  Case& one = cases[found->second];
  one.verdict = std::move(evaluated->verdict);
  under_way_.erase(found);
  // While the gym has the task ready, and beside what else it judges.
  if (lacks_peer(one) && asked_.insert(one.question->task).second)
    evaluator_.prepare(tasks_[one.question->task]);
}

/// Waits for the end of what the cancel token has ended, so that no later call meets it.
void LiveGym::withdraw() {
  while (evaluator_.in_flight() > 0) evaluator_.poll(kBetweenLooks);
  under_way_.clear();
}

/// Of the tasks of which an answer has passed. A task whose peers cannot be timed tells nothing.
Status LiveGym::find_peers(std::vector<Case>& cases) {
  asked_.clear();
  for (Case& one : cases) {
    if (!lacks_peer(one)) continue;
    const auto baselines = evaluator_.baselines(tasks_[one.question->task], cancel_);
    if (cancel_.cancelled()) return cancelled_error();
    if (baselines.ok())
      peers_[one.question->task] = baselines->best;
    else
      one.verdict = baselines.error();
  }
  return Ok{};
}

}  // namespace lathe::rl
