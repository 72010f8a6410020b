#include "policy/catalog/choice_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "policy/catalog/catalog.h"
#include "policy/catalog/choice_space.h"

namespace lathe {
namespace {

constexpr const char* kChoicePolicy = "choices";
constexpr int kTriesOfDistinct = 8;      // for each proposal, where equal ones are of no use
constexpr std::size_t kBeamOfEach = 4;   // schedules in part that are kept for each that is wanted
constexpr std::size_t kWidestBeam = 32;  // each takes some 20 ms of a large task

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

Proposal proposal_of(std::string text, const char* operation, double log_probability) {
  return {.text = std::move(text),
          .lineage = {.parents = {},
                      .policy = kChoicePolicy,
                      .operation = operation,
                      .description = fmt::format("log-probability {:.2f}", log_probability)}};
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
  return proposal_of(walk->text(), "sample", log_probability);
}

/// A schedule that is decided in part, and a value for its open decision.
struct Step {
  std::size_t of = 0;                     ///< which of the schedules that are kept
  std::optional<std::size_t> value = {};  ///< none: the schedule is decided
  double log_probability = 0;
};

struct Partial {
  std::unique_ptr<ChoiceWalk> walk;
  std::vector<TakenChoice> taken = {};
  double log_probability = 0;
};

/// The likeliest schedules that a beam of `width` finds, in that order.
Result<std::vector<Proposal>> likeliest(const ChoiceNet& net, const ChoiceSpace& space,
                                        std::span<const ShownChoices> shown, std::size_t width) {
  std::vector<Partial> kept;
  kept.push_back({.walk = space.begin()});
  while (std::ranges::any_of(kept, [](const Partial& partial) { return partial.walk->site().has_value(); })) {
    std::vector<Step> steps;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const Partial& partial = kept[i];
      if (!partial.walk->site()) {
        steps.push_back({.of = i, .log_probability = partial.log_probability});
        continue;
      }
      const auto log_p = net.log_probabilities({*partial.walk->site(), partial.taken, shown});
      for (std::size_t v = 0; v < log_p.size(); ++v)
        steps.push_back({i, v, partial.log_probability + log_p[v]});
    }
    std::ranges::stable_sort(steps, std::greater(), &Step::log_probability);
    steps.resize(std::min(steps.size(), width));
    std::vector<Partial> next;
    for (const Step& step : steps) {
      const Partial& from = kept[step.of];
      next.push_back({from.walk->clone(), from.taken, step.log_probability});
      Partial& to = next.back();
      if (!step.value) continue;
      const ChoiceSite& site = *from.walk->site();
      const int value = site.allowed[*step.value];
      LATHE_CHECK_OK(to.walk->take(value));
      to.taken.emplace_back(site, value);
    }
    kept = std::move(next);
  }
  std::ranges::stable_sort(kept, std::greater(), &Partial::log_probability);
  std::vector<Proposal> proposals;
  for (const Partial& partial : kept)
    proposals.push_back(proposal_of(partial.walk->text(), "likeliest", partial.log_probability));
  return proposals;
}

/// Draws from the network where answers are to be independent or a temperature is asked for; else
/// the likeliest that have not been seen, and draws once a beam finds no more.
Result<std::vector<Proposal>> propose(const ChoiceNet& net, const ProposalRequest& request) {
  LATHE_TRY(const auto space, make_schedule_space(request.context));
  Rng rng(request.seed);
  std::vector<Proposal> proposals;
  if (request.independent) {
    for (int i = 0; i < request.count; ++i) {
      LATHE_TRY(Proposal proposal, draw(net, *space, {}, request.temperature.value_or(1), rng));
      proposals.push_back(std::move(proposal));
    }
    return proposals;
  }
  const auto shown = shown_of(*space, request.history);
  std::set<std::string> seen;
  for (const auto& attempt : request.history) seen.insert(attempt->experience.candidate_text);
  const auto wanted = static_cast<std::size_t>(request.count);
  const auto add = [&](Proposal proposal) {
    if (proposals.size() < wanted && seen.insert(proposal.text).second)
      proposals.push_back(std::move(proposal));
  };
  if (!request.temperature && seen.size() < kWidestBeam) {
    const std::size_t width = std::min(kWidestBeam, kBeamOfEach * (wanted + seen.size()));
    LATHE_TRY(std::vector<Proposal> ranked, likeliest(net, *space, shown, width));
    for (Proposal& proposal : ranked) add(std::move(proposal));
  }
  for (int tries = 0; tries < kTriesOfDistinct * request.count && proposals.size() < wanted; ++tries) {
    LATHE_TRY(Proposal proposal, draw(net, *space, shown, request.temperature.value_or(1), rng));
    add(std::move(proposal));
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
