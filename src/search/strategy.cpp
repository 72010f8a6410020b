#include "search/strategy.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe {
namespace {

Result<std::vector<Proposal>> one_draw(const PolicyContext& context, Policy& policy, Rng& rng) {
  LATHE_TRY(Proposal proposal, policy.draw(context, rng));
  return std::vector<Proposal>{std::move(proposal)};
}

class RandomStrategy final : public Strategy {
 public:
  std::string_view name() const override { return "random"; }
  Result<std::vector<Proposal>> next(const PolicyContext& context, Policy& policy, const Archive&,
                                     Rng& rng) override {
    return one_draw(context, policy, rng);
  }
};

class BestOfN final : public Strategy {
 public:
  std::string_view name() const override { return "best-of-n"; }
  Result<std::vector<Proposal>> next(const PolicyContext& context, Policy& policy, const Archive&,
                                     Rng& rng) override {
    return policy.propose(context, kBatch, rng);
  }

 private:
  static constexpr int kBatch = 64;
};

/// MAP-Elites over the policy's behaviour cells. One proposal in eight stays a fresh draw, so that a cell
/// that the population lost can come back.
class Evolve final : public Strategy {
 public:
  std::string_view name() const override { return "evolve"; }

  Result<std::vector<Proposal>> next(const PolicyContext& context, Policy& policy, const Archive& archive,
                                     Rng& rng) override {
    const auto elites = archive.elites();
    if (archive.all().size() < kPopulation || elites.empty())
      return policy.propose(context, kPopulation, rng);
    if (rng.chance(kFreshShare)) return one_draw(context, policy, rng);
    const Experience& parent = *pick(elites, rng);
    const Experience* mate = rng.chance(kCrossoverShare) && elites.size() > 1 ? pick(elites, rng) : nullptr;
    LATHE_TRY(Proposal child, policy.vary(context, parent, mate == &parent ? nullptr : mate, rng));
    return std::vector<Proposal>{std::move(child)};
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
  if (name == "best-of-n") return std::unique_ptr<Strategy>(std::make_unique<BestOfN>());
  if (name == "evolve") return std::unique_ptr<Strategy>(std::make_unique<Evolve>());
  return invalid(fmt::format("unknown search '{}'", name), "use evolve, random or best-of-n");
}

}  // namespace lathe
