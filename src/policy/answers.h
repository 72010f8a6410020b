#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "policy/policy.h"

namespace lathe {

/// The requests of a policy whose answers come from threads of its own. Thread-safe.
class Answers {
 public:
  /// Names a request that cancel_all() may cancel.
  ProposalTicket open(const CancelToken& cancel);
  void close(ProposalTicket ticket, Result<std::vector<Proposal>> proposals);
  void cancel_all();
  /// As Policy::poll().
  std::optional<Proposed> poll(double timeout_seconds);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<ProposalTicket, CancelToken> open_;
  std::deque<Proposed> done_;
  ProposalTicket tickets_ = 0;
};

}  // namespace lathe
