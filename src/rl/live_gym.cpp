#include "rl/live_gym.h"

#include <algorithm>
#include <utility>

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

void LiveGym::expect(std::span<const std::size_t> tasks) {
  for (const std::size_t task : tasks)
    if (peers_[task].empty()) ask_for_peer(task);
}

void LiveGym::begin(const Question& question) {
  case_of(question);
  submit();
}

Result<std::vector<Verdict>> LiveGym::judge(std::span<const Question> questions, const Seed&) {
  std::vector<std::size_t> asked;
  for (const Question& question : questions) asked.push_back(case_of(question));
  auto verdicts = judge_cases(asked);
  cases_.clear();
  known_.clear();
  submitted_ = 0;
  return verdicts;
}

Result<std::vector<Verdict>> LiveGym::judge_cases(std::span<const std::size_t> asked) {
  while (submitted_ < cases_.size() || !under_way_.empty()) {
    if (cancel_.cancelled()) {
      withdraw();
      return cancelled_error();
    }
    submit();
    take(kBetweenLooks);
  }
  LATHE_CHECK_OK(find_peers());
  const auto nobody_answers = [](const Case& one) {
    if (one.verdict.ok()) return false;
    const ErrorCode code = one.verdict.error().code;
    return code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout;
  };
  if (!cases_.empty() && std::ranges::all_of(cases_, nobody_answers)) return cases_.front().verdict.error();
  std::vector<Verdict> verdicts;
  for (const std::size_t number : asked) {
    const Case& one = cases_[number];
    verdicts.push_back(one.verdict.ok() ? *one.verdict
                                        : lost(*tasks_[one.task], one.text, one.verdict.error()));
  }
  return verdicts;
}

std::size_t LiveGym::case_of(const Question& question) {
  const auto [found, fresh] = known_.try_emplace(
      {question.task, std::string(question.text), question.unreadable != nullptr}, cases_.size());
  if (fresh) {
    Case& one = cases_.emplace_back(Case{question.task, std::string(question.text), {}});
    if (question.unreadable != nullptr) one.unreadable = *question.unreadable;
  }
  return found->second;
}

void LiveGym::submit() {
  for (; submitted_ < cases_.size(); ++submitted_) {
    Case& one = cases_[submitted_];
    EvaluationRequest request{.task = tasks_[one.task],
                              .text = one.text,
                              .depth = Depth::kScreen,
                              .deadline_seconds = kJudgingSeconds,
                              .cancel = cancel_};
    if (one.unreadable) request.unreadable = *one.unreadable;
    const auto ticket = evaluator_.submit(std::move(request));
    if (ticket.ok())
      under_way_.emplace_back(*ticket, submitted_);
    else if (ticket.error().code == ErrorCode::kBusy && !under_way_.empty())
      return;
    else
      one.verdict = ticket.error();
  }
}

/// The next verdict, if one comes in time.
void LiveGym::take(double patience_seconds) {
  if (under_way_.empty()) return;
  std::optional<Evaluated> evaluated = evaluator_.poll(patience_seconds);
  if (!evaluated) return;
  const auto found = std::ranges::find(under_way_, evaluated->ticket, &std::pair<Ticket, std::size_t>::first);
  if (found == under_way_.end()) return;
  Case& one = cases_[found->second];
  one.verdict = std::move(evaluated->verdict);
  under_way_.erase(found);
  // While the gym has the task ready, and beside what else it judges.
  if (lacks_peer(one)) ask_for_peer(one.task);
}

void LiveGym::ask_for_peer(std::size_t task) {
  if (asked_.insert(task).second) evaluator_.prepare(tasks_[task]);
}

/// Waits for the end of what the cancel token has ended, so that no later call meets it.
void LiveGym::withdraw() {
  while (evaluator_.in_flight() > 0) evaluator_.poll(kBetweenLooks);
  under_way_.clear();
}

/// Of the tasks of which an answer has passed. A task whose peers cannot be timed tells nothing.
Status LiveGym::find_peers() {
  asked_.clear();
  for (Case& one : cases_) {
    if (!lacks_peer(one)) continue;
    const auto baselines = evaluator_.baselines(tasks_[one.task], cancel_);
    if (cancel_.cancelled()) return cancelled_error();
    if (baselines.ok())
      peers_[one.task] = baselines->best;
    else
      one.verdict = baselines.error();
  }
  return Ok{};
}

}  // namespace lathe::rl
