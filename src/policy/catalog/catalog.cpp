#include "policy/catalog/catalog.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "policy/catalog/compile.h"
#include "policy/catalog/cost/cost_model.h"
#include "policy/catalog/device_target.h"
#include "policy/catalog/schedule/variation.h"

namespace lathe {
namespace {

using catalog::Emission;
using catalog::Graph;
using catalog::Schedule;

constexpr const char* kName = "catalog";

class Catalog final : public Variation {
 public:
  /// The default schedule and single changes of it rank by predicted time; a few random schedules
  /// follow, for the cost model is only a model.
  Result<std::vector<Proposal>> propose(const ProposalRequest& request) {
    const PolicyContext& context = request.context;
    Rng rng(request.seed);
    LATHE_TRY(const Graph graph, catalog::lower_for(*context.task, catalog::target_of(context.device)));
    if (request.independent) return draw(context, graph, request.count, rng);
    std::vector<Proposal> proposals;
    std::set<std::string> seen;
    const auto add = [&](const Result<Emission>& emission, const std::string& operation) {
      if (!emission.ok() || !seen.insert(emission->text).second) return;
      proposals.push_back(make(context, *emission, operation, catalog::to_text(emission->schedule), {}));
    };
    LATHE_TRY(const Emission first, emit(context, graph, {}, nullptr));
    add(first, "default");
    for (const Schedule& changed : context.device.dialect == Dialect::kCuda
                                       ? catalog::gpu_changes(first.schedule, first.space)
                                       : catalog::single_changes(first.schedule, first.space))
      add(emit(context, graph, changed, nullptr), "variant");
    std::stable_sort(proposals.begin() + 1, proposals.end(), faster);
    const auto wanted = static_cast<std::size_t>(std::max(request.count, 1));
    const std::size_t kept = std::min(proposals.size(), std::max<std::size_t>(1, wanted * 3 / 4));
    proposals.resize(kept);
    for (std::size_t tries = 0; proposals.size() < wanted && tries < 8 * wanted; ++tries)
      add(emit(context, graph, {}, &rng), "random");
    return proposals;
  }

  Result<Proposal> mutate(const PolicyContext& context, const Experience& parent, Rng& rng) override {
    return vary(context, parent, nullptr, rng);
  }

  Result<Proposal> cross(const PolicyContext& context, const Experience& parent, const Experience& mate,
                         Rng& rng) override {
    return vary(context, parent, &mate, rng);
  }

  /// A changed version of `parent`; of `parent` and `mate` together if mate is not null.
  static Result<Proposal> vary(const PolicyContext& context, const Experience& parent, const Experience* mate,
                               Rng& rng) {
    LATHE_TRY(const Graph graph, catalog::lower_for(*context.task, catalog::target_of(context.device)));
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
      emission = change(context, graph, child, rng);
    }
    LATHE_CHECK_OK(emission.ok() ? Status(Ok{}) : Status(emission.error()));
    return make(context, *emission, operation, catalog::to_text(catalog::difference(own, emission->schedule)),
                std::move(parents));
  }

  /// Kernels in the plan, a class of what they do, tile or unroll class, cache block class.
  std::vector<int> cell(const Candidate& candidate) override {
    if (!candidate.has_plan()) return {};
    int patterns = 0;
    for (const char* name :
         {"map", "row_reduce", "column_reduce", "contraction", "conv", "stencil", "scan", "transpose"})
      patterns = patterns * 2 + (candidate.plan().pattern.find(name) != std::string::npos ? 1 : 0);
    int tile = 0, block = 0;
    for (const auto& [knob, value] : catalog::parse_schedule(candidate.plan().knobs)) {
      const auto ends = [&, key = knob](const char* suffix) { return key.ends_with(suffix); };
      if (ends(".unroll")) tile = std::max(tile, static_cast<int>(std::log2(value)));
      if (ends(".tile")) tile = std::max(tile, 10 + value % 10);
      if (ends(".kc") || ends(".block") || ends(".nc") || ends(".depth"))
        block = std::max(block, static_cast<int>(std::log2(value)));
    }
    return {static_cast<int>(candidate.plan().steps.size()), patterns, tile, block};
  }

 private:
  static Result<std::vector<Proposal>> draw(const PolicyContext& context, const Graph& graph, int count,
                                            Rng& rng) {
    std::vector<Proposal> proposals;
    for (int i = 0; i < count; ++i) {
      LATHE_TRY(const Emission emission, emit(context, graph, {}, &rng));
      proposals.push_back(make(context, emission, "random", catalog::to_text(emission.schedule), {}));
    }
    return proposals;
  }

  static bool faster(const Proposal& a, const Proposal& b) { return a.predicted_ns < b.predicted_ns; }

  static Result<Emission> emit(const PolicyContext& context, const Graph& graph, const Schedule& schedule,
                               Rng* random) {
    return catalog::compile(graph, schedule, random, catalog::target_of(context.device));
  }

  static Result<Schedule> schedule_of(const std::string& text) {
    LATHE_TRY(const Candidate candidate, parse_candidate(text, "parent"));
    if (!candidate.has_plan()) return invalid("the catalogue cannot vary a host program");
    return catalog::parse_schedule(candidate.plan().knobs);
  }

  static Result<Emission> change(const PolicyContext& context, const Graph& graph, const Schedule& schedule,
                                 Rng& rng) {
    LATHE_TRY(const Emission current, emit(context, graph, schedule, nullptr));
    return emit(context, graph, catalog::mutated(current.schedule, current.space, rng), nullptr);
  }

  static Proposal make(const PolicyContext& context, const Emission& emission, const std::string& operation,
                       std::string description, std::vector<Digest> parents) {
    Proposal proposal;
    proposal.text = emission.text;
    proposal.lineage = {std::move(parents), kName, operation, std::move(description)};
    proposal.predicted_ns = catalog::predict_ns(emission.work, context.peaks, context.device.threads);
    return proposal;
  }
};

}  // namespace

std::vector<Candidate> catalog_anchors(const PolicyContext& context) {
  const auto proposals = Catalog().propose({.context = context});
  if (!proposals.ok() || proposals->empty()) return {};
  auto candidate = parse_candidate(proposals->front().text, kName);
  return candidate.ok() ? std::vector<Candidate>{*std::move(candidate)} : std::vector<Candidate>{};
}

std::unique_ptr<Policy> make_catalog_policy() {
  const auto catalog = std::make_shared<Catalog>();
  return make_policy(
      kName, [catalog](const ProposalRequest& request) { return catalog->propose(request); }, RunsOn::kCaller,
      catalog);
}

}  // namespace lathe
