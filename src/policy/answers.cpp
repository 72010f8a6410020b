#include "policy/answers.h"

#include <chrono>

namespace lathe {

ProposalTicket Answers::open(const CancelToken& cancel) {
  std::lock_guard lock(mutex_);
  open_.emplace(++tickets_, cancel);
  return tickets_;
}

void Answers::close(ProposalTicket ticket, Result<std::vector<Proposal>> proposals) {
  std::lock_guard lock(mutex_);
  open_.erase(ticket);
  done_.push_back({ticket, std::move(proposals)});
  changed_.notify_all();
}

void Answers::cancel_all() {
  std::lock_guard lock(mutex_);
  for (const auto& [ticket, cancel] : open_) cancel.cancel();
}

std::optional<Proposed> Answers::poll(double timeout_seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(timeout_seconds),
                    [&] { return !done_.empty() || open_.empty(); });
  if (done_.empty()) return std::nullopt;
  Proposed answer = std::move(done_.front());
  done_.pop_front();
  return answer;
}

}  // namespace lathe
