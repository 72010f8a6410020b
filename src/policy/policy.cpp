#include "policy/policy.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "policy/answers.h"

namespace lathe {
namespace {

class FunctionPolicy final : public Policy {
 public:
  FunctionPolicy(std::string name, ProposeFunction propose, RunsOn where,
                 std::shared_ptr<Variation> variation)
      : name_(std::move(name)), propose_(std::move(propose)), variation_(std::move(variation)) {
    if (where == RunsOn::kThread) worker_ = std::thread([this] { answer_all(); });
  }

  ~FunctionPolicy() override {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    answers_.cancel_all();
    changed_.notify_all();
    if (worker_.joinable()) worker_.join();
  }

  std::string name() const override { return name_; }
  Variation* variation() override { return variation_.get(); }

  ProposalTicket ask(ProposalRequest request) override {
    request.cancel = request.cancel.child();
    const ProposalTicket ticket = answers_.open(request.cancel);
    if (!worker_.joinable()) {
      answers_.close(ticket, propose_(request));
      return ticket;
    }
    std::lock_guard lock(mutex_);
    waiting_.push_back({ticket, std::move(request)});
    changed_.notify_all();
    return ticket;
  }

  std::optional<Proposed> poll(double timeout_seconds) override { return answers_.poll(timeout_seconds); }

 private:
  void answer_all() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
      if (stopped_) return;
      const auto [ticket, request] = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      if (request.cancel.cancelled())
        answers_.close(ticket, Error{ErrorCode::kCancelled, "cancelled before it was answered"});
      else
        answers_.close(ticket, propose_(request));
    }
  }

  const std::string name_;
  const ProposeFunction propose_;
  const std::shared_ptr<Variation> variation_;
  Answers answers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<ProposalTicket, ProposalRequest>> waiting_;
  bool stopped_ = false;
  std::thread worker_;
};

}  // namespace

Result<Proposal> vary(Variation& variation, const PolicyContext& context, const Experience& first, Rng& rng) {
  const std::uint64_t changes = 1 + rng.below(3);
  LATHE_TRY(Proposal varied, variation.mutate(context, first, rng));
  for (std::uint64_t i = 1; i < changes; ++i) {
    const Experience parent{.candidate = digest_of(varied.text), .candidate_text = varied.text};
    LATHE_TRY(varied, variation.mutate(context, parent, rng));
  }
  varied.lineage.parents = {first.candidate};
  varied.lineage.operation = "vary";
  return varied;
}

std::unique_ptr<Policy> make_policy(std::string name, ProposeFunction propose, RunsOn where,
                                    std::shared_ptr<Variation> variation) {
  return std::make_unique<FunctionPolicy>(std::move(name), std::move(propose), where, std::move(variation));
}

Result<std::vector<Proposal>> propose_now(Policy& policy, ProposalRequest request) {
  constexpr double kPollSeconds = 0.1;
  const CancelToken cancel = request.cancel;
  const ProposalTicket ticket = policy.ask(std::move(request));
  while (!cancel.cancelled())
    if (auto answer = policy.poll(kPollSeconds); answer && answer->ticket == ticket)
      return std::move(answer->proposals);
  return Error{ErrorCode::kCancelled, "stopped while kernels were proposed"};
}

}  // namespace lathe
