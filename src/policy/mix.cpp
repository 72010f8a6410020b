#include "policy/mix.h"

#include <map>

namespace lathe {
namespace {

class MixedPolicy final : public Policy {
 public:
  MixedPolicy(std::unique_ptr<Policy> beginner, std::unique_ptr<Policy> writer, double share)
      : policies_{std::move(beginner), std::move(writer)}, share_(share) {}

  std::string name() const override {
    return "mix(" + policies_[0]->name() + ", " + policies_[1]->name() + ")";
  }

  ProposalTicket ask(ProposalRequest request) override {
    const bool begins =
        (request.independent || request.history.empty()) && Rng(request.seed.derive("mix")).chance(share_);
    const std::size_t chosen = begins ? 0 : 1;
    const ProposalTicket ticket = ++tickets_;
    tickets_of_[chosen][policies_[chosen]->ask(std::move(request))] = ticket;
    return ticket;
  }

  std::optional<Proposed> poll(double timeout_seconds) override {
    if (auto answer = poll_one(0, tickets_of_[1].empty() ? timeout_seconds : 0)) return answer;
    return poll_one(1, timeout_seconds);
  }

 private:
  std::optional<Proposed> poll_one(std::size_t chosen, double timeout_seconds) {
    if (tickets_of_[chosen].empty()) return std::nullopt;
    auto answer = policies_[chosen]->poll(timeout_seconds);
    if (!answer) return std::nullopt;
    const auto ticket = tickets_of_[chosen].extract(answer->ticket);
    if (!ticket) return std::nullopt;
    answer->ticket = ticket.mapped();
    return answer;
  }

  const std::unique_ptr<Policy> policies_[2];
  const double share_;
  std::map<ProposalTicket, ProposalTicket> tickets_of_[2];  ///< a policy's own, and ours
  ProposalTicket tickets_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_mixed_policy(std::unique_ptr<Policy> beginner, std::unique_ptr<Policy> writer,
                                          double beginner_share) {
  return std::make_unique<MixedPolicy>(std::move(beginner), std::move(writer), beginner_share);
}

}  // namespace lathe
