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

/// Draws a value by its term; at temperature 0 takes the likeliest.
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

Proposal proposal_of(std::string text, const char* operation, std::string description) {
  return {.text = std::move(text),
          .lineage = {.parents = {},
                      .policy = kChoicePolicy,
                      .operation = operation,
                      .description = std::move(description)}};
}

Proposal proposal_of(std::string text, const char* operation, double log_probability) {
  return proposal_of(std::move(text), operation, fmt::format("log-probability {:.2f}", log_probability));
}

Result<Proposal> draw(const ChoiceNet& net, const ChoiceSpace& space, std::span<const ShownChoices> shown,
                      double temperature, Rng& rng) {
  const auto walk = space.begin();
  std::vector<TakenChoice> taken;
  double log_probability = 0;
  while (walk->site()) {
    const ChoiceSite site = *walk->site();
    const auto log_p = log_softmax(net.terms({site, taken, shown}));
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
      const auto terms = net.terms({*partial.walk->site(), partial.taken, shown});
      for (std::size_t v = 0; v < terms.size(); ++v)
        steps.push_back({i, v, partial.log_probability + terms[v]});
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

/// What several networks find likely, by the sum of 1 / (place + kBehind) over their lists: where
/// one is wrong of a task another often is not, and what two of them place third goes before what
/// one alone places first.
Result<std::vector<Proposal>> likeliest_of_all(std::span<const ChoiceNet> nets, const ChoiceSpace& space,
                                               std::span<const ShownChoices> shown, std::size_t width) {
  constexpr double kBehind = 3;
  std::vector<std::pair<double, Proposal>> scored;
  for (const ChoiceNet& net : nets) {
    LATHE_TRY(std::vector<Proposal> ranked, likeliest(net, space, shown, width));
    for (std::size_t place = 0; place < ranked.size(); ++place) {
      auto known =
          std::ranges::find(scored, ranked[place].text, [](const auto& one) { return one.second.text; });
      if (known == scored.end()) known = scored.insert(known, {0, std::move(ranked[place])});
      known->first += 1 / (static_cast<double>(place) + kBehind);
    }
  }
  std::ranges::stable_sort(scored, std::greater(), [](const auto& one) { return one.first; });
  std::vector<Proposal> proposals;
  for (auto& [score, proposal] : scored) proposals.push_back(std::move(proposal));
  return proposals;
}

/// Draws where answers are to be independent or a temperature is asked for, the networks in turn;
/// else the catalogue's default, for at a task unlike all that networks learned from their
/// favourite may be many times slower, the likeliest that have not been seen, and draws once beams
/// find no more.
Result<std::vector<Proposal>> propose(std::span<const ChoiceNet> nets, const ProposalRequest& request) {
  LATHE_TRY(const auto space, make_schedule_space(request.context));
  Rng rng(request.seed);
  std::vector<Proposal> proposals;
  const double temperature = request.temperature.value_or(1);
  const auto wanted = static_cast<std::size_t>(request.count);
  if (request.independent) {
    while (proposals.size() < wanted) {
      LATHE_TRY(Proposal proposal, draw(nets[proposals.size() % nets.size()], *space, {}, temperature, rng));
      proposals.push_back(std::move(proposal));
    }
    return proposals;
  }
  const auto shown = shown_of(*space, request.history);
  std::set<std::string> seen;
  for (const auto& attempt : request.history) seen.insert(attempt->experience.candidate_text);
  const auto add = [&](Proposal proposal) {
    if (proposals.size() < wanted && seen.insert(proposal.text).second)
      proposals.push_back(std::move(proposal));
  };
  if (!request.temperature && seen.size() < kWidestBeam) {
    add(proposal_of(space->begin()->text(), "default", "where nobody chooses"));
    const std::size_t width = std::min(kWidestBeam, kBeamOfEach * (wanted + seen.size()));
    LATHE_TRY(std::vector<Proposal> ranked, likeliest_of_all(nets, *space, shown, width));
    for (Proposal& proposal : ranked) add(std::move(proposal));
  }
  for (int tries = 0; tries < kTriesOfDistinct * request.count && proposals.size() < wanted; ++tries) {
    LATHE_TRY(Proposal proposal, draw(nets[seen.size() % nets.size()], *space, shown, temperature, rng));
    add(std::move(proposal));
  }
  return proposals;
}

}  // namespace

std::unique_ptr<Policy> make_choice_policy(std::vector<ChoiceNet> nets) {
  const auto shared = std::make_shared<const std::vector<ChoiceNet>>(std::move(nets));
  return make_policy(
      kChoicePolicy, [shared](const ProposalRequest& request) { return propose(*shared, request); },
      RunsOn::kCaller, std::make_shared<CatalogVariation>());
}

}  // namespace lathe
