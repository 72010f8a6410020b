#include "policy/catalog/choice_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "policy/catalog/catalog.h"
#include "policy/catalog/choice_space.h"

namespace lathe {
namespace {

constexpr const char* kChoicePolicy = "choices";
constexpr int kTriesOfDistinct = 8;  // for each proposal, where equal ones are of no use

/// The catalogue's own, which keeps the catalogue alive.
class CatalogVariation final : public Variation {
 public:
  Result<Proposal> mutate(const PolicyContext& context, const Experience& parent, Rng& rng) override {
    return own().mutate(context, parent, rng);
  }
  Result<Proposal> cross(const PolicyContext& context, const Experience& parent, const Experience& mate,
                         Rng& rng) override {
    return own().cross(context, parent, mate, rng);
  }
  std::vector<int> cell(const Candidate& candidate) override { return own().cell(candidate); }

 private:
  Variation& own() { return *catalog_->variation(); }
  std::unique_ptr<Policy> catalog_ = make_catalog_policy();
};

std::vector<ShownChoices> shown_of(const ChoiceSpace& space, const History& history) {
  std::vector<ShownChoices> shown;
  for (const auto& attempt : history) {
    if (shown.size() == ShownChoices::kMost) break;
    auto taken = space.decisions_of(attempt->experience.candidate_text);
    if (!taken.ok()) continue;
    shown.push_back({.taken = *std::move(taken), .score = ShownChoices::score_of(attempt->fitness)});
  }
  return shown;
}

/// Draws a value; at temperature 0 takes the likeliest.
std::size_t choose(const std::vector<double>& log_p, double temperature, Rng& rng) {
  if (temperature <= 0) return static_cast<std::size_t>(std::ranges::max_element(log_p) - log_p.begin());
  std::vector<double> scaled = log_p;
  for (double& one : scaled) one /= temperature;
  scaled = log_softmax(std::move(scaled));
  double rest = rng.uniform();
  for (std::size_t v = 0; v < scaled.size(); ++v)
    if ((rest -= std::exp(scaled[v])) < 0) return v;
  return scaled.size() - 1;
}

Result<Proposal> draw(const ChoiceNet& net, const ChoiceSpace& space, std::span<const ShownChoices> shown,
                      double temperature, Rng& rng) {
  const auto walk = space.begin();
  std::vector<TakenChoice> taken;
  double log_probability = 0;
  while (walk->site()) {
    const ChoiceSite site = *walk->site();
    const auto log_p = net.log_probabilities({site, taken, shown});
    const std::size_t v = choose(log_p, temperature, rng);
    log_probability += log_p[v];
    LATHE_CHECK_OK(walk->take(site.allowed[v]));
    taken.emplace_back(site, site.allowed[v]);
  }
  Proposal proposal;
  proposal.text = walk->text();
  proposal.lineage = {.parents = {},
                      .policy = kChoicePolicy,
                      .operation = "sample",
                      .description = fmt::format("log-probability {:.2f}", log_probability)};
  return proposal;
}

Result<std::vector<Proposal>> propose(const ChoiceNet& net, const ProposalRequest& request) {
  LATHE_TRY(const auto space, make_schedule_space(request.context));
  const History history = request.independent ? History() : request.history;
  const auto shown = shown_of(*space, history);
  std::set<std::string> seen;
  for (const auto& attempt : request.history) seen.insert(attempt->experience.candidate_text);
  Rng rng(request.seed);
  std::vector<Proposal> proposals;
  const double temperature = request.temperature.value_or(1);
  for (int i = 0; i < request.count; ++i)
    for (int tries = 0; tries < kTriesOfDistinct; ++tries) {
      const bool is_first = !request.independent && seen.empty();
      LATHE_TRY(Proposal proposal, draw(net, *space, shown, is_first ? 0 : temperature, rng));
      if (!request.independent && !seen.insert(proposal.text).second) continue;
      proposals.push_back(std::move(proposal));
      break;
    }
  return proposals;
}

}  // namespace

std::unique_ptr<Policy> make_choice_policy(ChoiceNet net) {
  const auto shared = std::make_shared<const ChoiceNet>(std::move(net));
  return make_policy(
      kChoicePolicy, [shared](const ProposalRequest& request) { return propose(*shared, request); },
      RunsOn::kCaller, std::make_shared<CatalogVariation>());
}

}  // namespace lathe
