#include "search/contrast.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace lathe {
namespace {

double score_of(const Attempt& attempt) { return std::log(attempt.fitness); }

bool is_screen(const Attempt& attempt) { return attempt.experience.verdict.depth != Depth::kFinal; }

class Contrast final : public Strategy {
 public:
  explicit Contrast(const ContrastOptions& options) : options_(options) {}
  std::string_view name() const override { return "contrast"; }

  Result<Step> next(const Situation& situation, Rng& rng) override {
    std::int64_t last = -1;
    for (const auto& attempt : situation.archive.all())
      last = std::max(last, attempt->experience.lineage.turn);
    for (const UnderWay& other : situation.under_way) last = std::max(last, other.turn);
    const std::int64_t batch = last + 1;
    const std::int64_t island = batch % options_.islands;
    const int samples = std::clamp(situation.room, 1, options_.samples);

    const auto buckets = score_buckets(population(situation.archive.all(), island), options_.bucket_width);
    History exemplars = draw_exemplars(buckets, options_, rng);
    Variation* const variation = situation.policy.variation();
    if (variation && exemplars.size() > 1) {
      LATHE_TRY(Proposal child, variation->cross(situation.context, exemplars.back()->experience,
                                                 exemplars.front()->experience, rng));
      child.lineage.branch = island;
      child.lineage.turn = batch;
      return Step{.proposals = {std::move(child)}};
    }
    Ask ask{.count = samples, .independent = exemplars.empty(), .group = batch, .turn = batch};
    ask.use = HistoryUse::kExemplars;
    ask.branches.assign(static_cast<std::size_t>(samples), island);
    ask.shown = std::move(exemplars);
    return Step{.ask = std::move(ask)};
  }

 private:
  /// What an island knows: its own kernels, and the best of all up to the last migration.
  History population(const History& all, std::int64_t island) const {
    if (options_.islands == 1) return all;
    History known;
    const auto screens = std::ranges::count_if(all, [](const auto& attempt) { return is_screen(*attempt); });
    const std::int64_t migrated = screens / options_.migrate_every * options_.migrate_every;
    std::int64_t seen = 0;
    std::shared_ptr<const Attempt> best;
    for (const auto& attempt : all) {
      if (!is_screen(*attempt)) continue;
      if (attempt->experience.lineage.branch == island) known.push_back(attempt);
      if (seen++ < migrated && (!best || attempt->fitness > best->fitness)) best = attempt;
    }
    if (best && best->experience.lineage.branch != island) known.push_back(best);
    return known;
  }

  const ContrastOptions options_;
};

}  // namespace

std::vector<Bucket> score_buckets(const History& history, double bucket_width) {
  std::map<std::int64_t, Bucket> buckets;
  std::set<Digest> known;
  for (const auto& attempt : history) {
    if (attempt->fitness <= 0 || !is_screen(*attempt)) continue;
    if (!known.insert(attempt->experience.candidate).second) continue;
    const double index = std::floor(score_of(*attempt) / bucket_width);
    buckets[static_cast<std::int64_t>(std::clamp(index, -1e6, 1e6))].kernels.push_back(attempt);
  }
  std::vector<Bucket> sorted;
  for (auto& [index, bucket] : buckets) {
    for (const auto& kernel : bucket.kernels) bucket.mean += score_of(*kernel);
    bucket.mean /= static_cast<double>(bucket.kernels.size());
    sorted.push_back(std::move(bucket));
  }
  return sorted;
}

History draw_exemplars(const std::vector<Bucket>& buckets, const ContrastOptions& options, Rng& rng) {
  std::vector<double> weights;
  double mu = 0, kernels = 0;
  for (const Bucket& bucket : buckets) {
    mu += bucket.mean * static_cast<double>(bucket.kernels.size());
    kernels += static_cast<double>(bucket.kernels.size());
  }
  if (kernels > 0) mu /= kernels;
  for (const Bucket& bucket : buckets)
    weights.push_back(std::exp(std::clamp((bucket.mean - mu) / options.tau, -500.0, 500.0)));
  std::set<std::size_t> drawn;
  while (static_cast<int>(drawn.size()) < options.exemplars && drawn.size() < buckets.size()) {
    double left = 0;
    for (std::size_t i = 0; i < buckets.size(); ++i)
      if (!drawn.contains(i)) left += weights[i];
    double at = rng.uniform() * left;
    std::size_t chosen = buckets.size();
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      if (drawn.contains(i)) continue;
      chosen = i;
      if ((at -= weights[i]) < 0) break;
    }
    drawn.insert(chosen);
  }
  History exemplars;
  for (const std::size_t bucket : drawn)
    exemplars.push_back(buckets[bucket].kernels[rng.below(buckets[bucket].kernels.size())]);
  return exemplars;
}

Result<std::unique_ptr<Strategy>> make_contrast(const ContrastOptions& options) {
  if (options.exemplars < 1 || options.samples < 1 || options.islands < 1 || options.migrate_every < 1)
    return invalid("contrast needs at least one exemplar, sample, island and evaluation between migrations");
  if (!(options.tau > 0) || !(options.bucket_width > 0))
    return invalid("contrast needs a temperature and a bucket width above zero");
  return std::unique_ptr<Strategy>(std::make_unique<Contrast>(options));
}

}  // namespace lathe
