#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "gym/evaluator.h"
#include "gym/gym.h"

namespace lathe {

/// A correct kernel that is `speed` times as fast as "naive", its only peer.
inline Verdict passed_verdict(const EvaluationRequest& request, double speed) {
  Verdict verdict{.outcome = Outcome::kPass,
                  .reason = "ok",
                  .depth = request.depth,
                  .candidate = digest_of(request.text),
                  .task = request.task->digest};
  verdict.speedups = {{"naive", "small", {speed, speed, speed}}};
  return verdict;
}

inline Verdict failed_verdict(const EvaluationRequest& request, Outcome outcome, const std::string& reason) {
  return {.outcome = outcome,
          .reason = reason,
          .depth = request.depth,
          .candidate = digest_of(request.text),
          .task = request.task->digest};
}

/// Judges texts by a function, in its own order: the last submitted first. Texts that are said to
/// be unreadable are BUILD_FAILED, as in a gym.
class FunctionEvaluator final : public Evaluator {
 public:
  using Judge = std::function<Result<Verdict>(const EvaluationRequest&)>;
  explicit FunctionEvaluator(Judge judge) : judge_(std::move(judge)) {}

  Result<Ticket> submit(EvaluationRequest request) override {
    if (in_flight() >= room) return Error{ErrorCode::kBusy, "full"};
    requests.push_back(request);
    waiting_.push_back({++tickets_, std::move(request)});
    most_in_flight = std::max(most_in_flight, in_flight());
    return tickets_;
  }
  std::optional<Evaluated> poll(double) override {
    on_poll();
    if (waiting_.empty()) return std::nullopt;
    const auto [ticket, request] = std::move(waiting_.back());
    waiting_.pop_back();
    if (request.cancel.cancelled()) return Evaluated{ticket, Error{ErrorCode::kCancelled, "cancelled"}};
    if (request.unreadable) return Evaluated{ticket, unreadable_verdict(request, *request.unreadable)};
    return Evaluated{ticket, judge_(request)};
  }
  int in_flight() const override { return static_cast<int>(waiting_.size()); }
  void prepare(std::shared_ptr<const TaskSpec>) override { on_prepare(); }
  Result<TaskBaselines> baselines(std::shared_ptr<const TaskSpec> task, const CancelToken&) override {
    ++baselines_asked;
    if (task->name == task_without_peers) return Error{ErrorCode::kInternal, "the naive build fails"};
    return TaskBaselines{{}, "naive"};
  }

  int room = 100, most_in_flight = 0, baselines_asked = 0;
  std::string task_without_peers = {};
  std::function<void()> on_poll = [] {}, on_prepare = [] {};
  std::vector<EvaluationRequest> requests;

 private:
  const Judge judge_;
  std::deque<std::pair<Ticket, EvaluationRequest>> waiting_;
  Ticket tickets_ = 0;
};

}  // namespace lathe
