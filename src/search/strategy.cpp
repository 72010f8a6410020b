#include "search/strategy.h"

#include <fmt/format.h>

#include <algorithm>

#include "search/contrast.h"
#include "search/refine.h"

namespace lathe {
namespace {

constexpr Ask kOneDraw{1, true};

Status can_vary(Policy& policy, std::string_view strategy) {
  if (policy.variation()) return Ok{};
  return invalid(fmt::format("{} varies kernels, which the policy '{}' cannot", strategy, policy.name()),
                 "search with best-of-n or random");
}

class RandomStrategy final : public Strategy {
 public:
  std::string_view name() const override { return "random"; }
  Result<Step> next(const Situation&, Rng&) override { return Step{.ask = kOneDraw}; }
};

class Survey final : public Strategy {
 public:
  std::string_view name() const override { return "survey"; }
  Result<Step> next(const Situation& situation, Rng&) override {
    const bool begun = !situation.under_way.empty() || !situation.archive.all().empty();
    return Step{.ask = begun ? kOneDraw : Ask{1}};
  }
};

class Vary final : public Strategy {
 public:
  std::string_view name() const override { return "vary"; }

  Status accept(Policy& policy) const override { return can_vary(policy, name()); }

  Result<Step> next(const Situation& situation, Rng& rng) override {
    if (situation.archive.all().empty()) {
      if (!situation.under_way.empty()) return Step{.wait = true};
      return Step{.ask = Ask{1}};
    }
    if (rng.chance(kFreshShare)) return Step{.ask = kOneDraw};
    auto varied = vary(*situation.policy.variation(), situation.context,
                       situation.archive.all().front()->experience, rng);
    if (!varied.ok()) return Step{.ask = kOneDraw};
    return Step{.proposals = {*std::move(varied)}};
  }

 private:
  static constexpr double kFreshShare = 0.25;
};

class BestOfN final : public Strategy {
 public:
  std::string_view name() const override { return "best-of-n"; }
  Result<Step> next(const Situation& situation, Rng&) override {
    return Step{.ask = Ask{std::clamp(situation.room, 1, kBatch)}};
  }

 private:
  static constexpr int kBatch = 64;
};

/// MAP-Elites over the policy's behaviour cells. One proposal in eight stays a fresh draw, so that
/// a cell that the population lost can come back.
class Evolve final : public Strategy {
 public:
  std::string_view name() const override { return "evolve"; }

  Status accept(Policy& policy) const override { return can_vary(policy, name()); }

  Result<Step> next(const Situation& situation, Rng& rng) override {
    const PolicyContext& context = situation.context;
    const auto elites = situation.archive.elites();
    if (situation.archive.all().size() < kPopulation || elites.empty()) return Step{.ask = Ask{kPopulation}};
    if (rng.chance(kFreshShare)) return Step{.ask = kOneDraw};
    Variation& variation = *situation.policy.variation();
    const Experience& parent = *pick(elites, rng);
    const Experience* mate = rng.chance(kCrossoverShare) && elites.size() > 1 ? pick(elites, rng) : nullptr;
    auto child = mate != nullptr && mate != &parent ? variation.cross(context, parent, *mate, rng)
                                                    : variation.mutate(context, parent, rng);
    if (!child.ok()) return std::move(child).error();
    return Step{.proposals = {*std::move(child)}};
  }

 private:
  /// Rank selection: half the time among the best three, else any cell.
  static const Experience* pick(const std::vector<const Experience*>& elites, Rng& rng) {
    const std::size_t most = rng.chance(0.5) ? std::min<std::size_t>(3, elites.size()) : elites.size();
    return elites[rng.below(most)];
  }

  static constexpr int kPopulation = 16;
  static constexpr double kFreshShare = 0.125;
  static constexpr double kCrossoverShare = 0.2;
};

}  // namespace

Result<std::unique_ptr<Strategy>> make_strategy(std::string_view name) {
  if (name == "random") return std::unique_ptr<Strategy>(std::make_unique<RandomStrategy>());
  if (name == "survey") return std::unique_ptr<Strategy>(std::make_unique<Survey>());
  if (name == "vary") return std::unique_ptr<Strategy>(std::make_unique<Vary>());
  if (name == "best-of-n") return std::unique_ptr<Strategy>(std::make_unique<BestOfN>());
  if (name == "evolve") return std::unique_ptr<Strategy>(std::make_unique<Evolve>());
  if (name == "refine") return make_refine({});
  if (name == "contrast") return make_contrast({});
  return invalid(fmt::format("unknown search '{}'", name),
                 "use evolve, random, survey, vary, best-of-n, refine or contrast");
}

}  // namespace lathe
