#include "policy/catalog/catalog.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "policy/catalog/compile.h"
#include "policy/catalog/cost/cost_model.h"

namespace lathe {
namespace {

using catalog::Emission;
using catalog::Graph;
using catalog::Schedule;
using catalog::Target;

Target target_of(const DeviceInfo& device) {
  const auto found = device.facts.find("vector_bytes");
  const bool known = found != device.facts.end() && found->second >= 32;
  Target target{.cuda = device.kind == "cuda", .lanes = known ? static_cast<int>(found->second / 4) : 16};
  const auto fact = [&](const char* name, int otherwise) {
    const auto at = device.facts.find(name);
    return at != device.facts.end() ? static_cast<int>(at->second) : otherwise;
  };
  target.cluster = fact("max_cluster", 1);
  target.shared_bytes = fact("smem_optin", 48 * 1024);
  target.multiprocessors = fact("sm_count", target.multiprocessors);
  return target;
}

class CatalogPolicy final : public Policy {
 public:
  std::string name() const override { return "catalog"; }

  /// The default schedule and single changes of it rank by predicted time; a few random schedules follow, for
  /// the cost model is only a model.
  Result<std::vector<Proposal>> propose(const PolicyContext& context, int count, Rng& rng) override {
    LATHE_TRY(const Graph graph, catalog::lower(context.task));
    std::vector<Proposal> proposals;
    std::set<std::string> seen;
    const auto add = [&](const Result<Emission>& emission, const std::string& operation) {
      if (!emission.ok() || !seen.insert(emission->text).second) return;
      proposals.push_back(make(context, *emission, operation, catalog::to_text(emission->schedule), {}));
    };
    LATHE_TRY(const Emission first, emit(context, graph, {}, nullptr));
    add(first, "default");
    for (const Schedule& changed : context.device.kind == "cuda" ? gpu_changes(first) : single_changes(first))
      add(emit(context, graph, changed, nullptr), "variant");
    std::stable_sort(proposals.begin() + 1, proposals.end(), faster);
    const auto wanted = static_cast<std::size_t>(std::max(count, 1));
    const std::size_t kept = std::min(proposals.size(), std::max<std::size_t>(1, wanted * 3 / 4));
    proposals.resize(kept);
    for (std::size_t tries = 0; proposals.size() < wanted && tries < 8 * wanted; ++tries)
      add(emit(context, graph, {}, &rng), "random");
    return proposals;
  }

  Result<Proposal> draw(const PolicyContext& context, Rng& rng) override {
    LATHE_TRY(const Graph graph, catalog::lower(context.task));
    LATHE_TRY(const Emission emission, emit(context, graph, {}, &rng));
    return make(context, emission, "random", catalog::to_text(emission.schedule), {});
  }

  Result<Proposal> vary(const PolicyContext& context, const Experience& parent, const Experience* mate,
                        Rng& rng) override {
    LATHE_TRY(const Graph graph, catalog::lower(context.task));
    LATHE_TRY(const Schedule own, schedule_of(parent.candidate_text));
    Schedule child = own;
    std::vector<Digest> parents = {parent.candidate};
    std::string operation = "mutate";
    if (mate != nullptr) {
      if (const auto other = schedule_of(mate->candidate_text); other.ok()) {
        for (const auto& [knob, value] : *other)
          if (rng.chance(0.5)) child[knob] = value;
        parents.push_back(mate->candidate);
        operation = "crossover";
      }
    }
    Result<Emission> emission = emit(context, graph, child, nullptr);
    for (int tries = 0; tries < 16; ++tries) {
      if (emission.ok() && emission->text != parent.candidate_text) break;
      emission = mutate(context, graph, child, rng);
    }
    LATHE_CHECK_OK(emission.ok() ? Status(Ok{}) : Status(emission.error()));
    return make(context, *emission, operation, difference(own, emission->schedule), std::move(parents));
  }

  /// Kernels in the plan, a class of what they do, tile or unroll class, cache block class.
  std::vector<int> behaviour(const PolicyContext&, const Candidate& candidate) override {
    int patterns = 0;
    for (const char* name :
         {"map", "row_reduce", "column_reduce", "contraction", "conv", "stencil", "scan", "transpose"})
      patterns = patterns * 2 + (candidate.plan.pattern.find(name) != std::string::npos ? 1 : 0);
    int tile = 0, block = 0;
    for (const auto& [knob, value] : catalog::parse_schedule(candidate.plan.knobs)) {
      const auto ends = [&, key = knob](const char* suffix) { return key.ends_with(suffix); };
      if (ends(".unroll")) tile = std::max(tile, static_cast<int>(std::log2(value)));
      if (ends(".tile")) tile = std::max(tile, 10 + value % 10);
      if (ends(".kc") || ends(".block") || ends(".nc") || ends(".depth"))
        block = std::max(block, static_cast<int>(std::log2(value)));
    }
    return {static_cast<int>(candidate.plan.steps.size()), patterns, tile, block};
  }

 private:
  /// The default schedule with one other value.
  static std::vector<Schedule> single_changes(const Emission& first) {
    std::vector<Schedule> changes;
    for (const auto& [knob, allowed] : first.space) {
      for (const int value : allowed) {
        Schedule changed = first.schedule;
        changed[knob] = value;
        changes.push_back(std::move(changed));
      }
    }
    return changes;
  }

  /// On a GPU the team decides what else is best, so all but the one value takes its default again.
  /// Predictions are often equal there: what concerns the whole kernel comes first, then the two values next
  /// to each default. Dims that are compiled in help, and take a compilation for each shape: one in four goes
  /// without. What a cache is told of goes with any other change: such pairs follow.
  static std::vector<Schedule> gpu_changes(const Emission& first) {
    std::vector<Schedule> near, far, changes;
    for (auto knob = first.space.rbegin(); knob != first.space.rend(); ++knob) {
      const auto& [name, allowed] = *knob;
      const auto at = std::ranges::find(allowed, first.schedule.at(name)) - allowed.begin();
      std::vector<std::pair<std::ptrdiff_t, int>> others;
      for (std::size_t i = 0; i < allowed.size(); ++i) {
        const auto distance = std::abs(static_cast<std::ptrdiff_t>(i) - at);
        if (distance > 0 && name != "fixed") others.emplace_back(distance, allowed[i]);
      }
      std::ranges::stable_sort(others, {}, &std::pair<std::ptrdiff_t, int>::first);
      const std::size_t whole = name.find('.') == std::string::npos && name != "fuse" ? 4 : 2;
      for (std::size_t i = 0; i < others.size(); ++i)
        (i < whole ? near : far).push_back({{name, others[i].second}});
    }
    near.insert(near.end(), far.begin(), far.end());
    if (!first.space.contains("fixed")) return near;
    changes.push_back({{"fixed", 1}});
    std::size_t plain = 0;
    for (const Schedule& change : near) {
      changes.push_back(change);
      changes.back()["fixed"] = 1;
      if (changes.size() % 4 == 0) changes.push_back(near[plain++]);
    }
    for (Schedule& pair : hinted(near)) {
      pair["fixed"] = 1;
      changes.push_back(std::move(pair));
    }
    changes.insert(changes.end(), near.begin() + static_cast<std::ptrdiff_t>(plain), near.end());
    return changes;
  }

  /// Every change of a hint with every other change, hint by hint.
  static std::vector<Schedule> hinted(const std::vector<Schedule>& changes) {
    const auto is_hint = [](const Schedule& change) { return change.begin()->first.ends_with(".stream"); };
    std::vector<Schedule> pairs;
    for (const Schedule& hint : changes) {
      if (!is_hint(hint)) continue;
      for (const Schedule& change : changes) {
        if (is_hint(change)) continue;
        pairs.push_back(change);
        pairs.back().insert(hint.begin(), hint.end());
      }
    }
    return pairs;
  }

  static bool faster(const Proposal& a, const Proposal& b) { return a.predicted_ns < b.predicted_ns; }

  static Result<Emission> emit(const PolicyContext& context, const Graph& graph, const Schedule& schedule,
                               Rng* random) {
    return catalog::compile(graph, schedule, random, target_of(context.device));
  }

  static Result<Schedule> schedule_of(const std::string& text) {
    LATHE_TRY(const Candidate candidate, parse_candidate(text, "parent"));
    return catalog::parse_schedule(candidate.plan.knobs);
  }

  /// One knob takes another of its values; sometimes a second one too.
  static Result<Emission> mutate(const PolicyContext& context, const Graph& graph, Schedule schedule,
                                 Rng& rng) {
    LATHE_TRY(const Emission current, emit(context, graph, schedule, nullptr));
    schedule = current.schedule;
    for (int changes = rng.chance(0.3) ? 2 : 1; changes > 0; --changes) {
      auto knob = current.space.begin();
      std::advance(knob, static_cast<std::ptrdiff_t>(rng.below(current.space.size())));
      schedule[knob->first] = knob->second[rng.below(knob->second.size())];
    }
    return emit(context, graph, schedule, nullptr);
  }

  static std::string difference(const Schedule& before, const Schedule& after) {
    Schedule changed;
    for (const auto& [knob, value] : after) {
      const auto old = before.find(knob);
      if (old == before.end() || old->second != value) changed[knob] = value;
    }
    return catalog::to_text(changed);
  }

  Proposal make(const PolicyContext& context, const Emission& emission, const std::string& operation,
                std::string description, std::vector<Digest> parents) const {
    Proposal proposal;
    proposal.text = emission.text;
    proposal.lineage = {std::move(parents), name(), operation, std::move(description)};
    proposal.predicted_ns = catalog::predict_ns(emission.work, context.peaks, context.device.threads);
    return proposal;
  }
};

}  // namespace

std::vector<Candidate> catalog_anchors(const PolicyContext& context) {
  Rng rng(Seed::from_number(0));
  const auto proposals = make_catalog_policy()->propose(context, 1, rng);
  if (!proposals.ok() || proposals->empty()) return {};
  auto candidate = parse_candidate(proposals->front().text, "catalog");
  return candidate.ok() ? std::vector<Candidate>{*std::move(candidate)} : std::vector<Candidate>{};
}

std::unique_ptr<Policy> make_catalog_policy() { return std::make_unique<CatalogPolicy>(); }

}  // namespace lathe
