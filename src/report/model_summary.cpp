#include "report/model_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace lathe {
namespace {

using nlohmann::json;

double speedup_of(const Experience& experience, const std::string& best_baseline) {
  if (!experience.verdict.passed()) return 0;
  const auto ratio = experience.verdict.speedup(best_baseline);
  return ratio ? ratio->mid : 0;
}

void count(AnswerCounts& counts, const Experience& experience, double speedup) {
  const Verdict& verdict = experience.verdict;
  const bool built = verdict.outcome != Outcome::kBuildFailed && verdict.outcome != Outcome::kInfra;
  ++counts.answers;
  counts.readable += built || verdict.reason != "bad_candidate";
  counts.built += built;
  counts.correct += verdict.passed();
  counts.best = std::max(counts.best, speedup);
}

double cost_of(const Generation& generation, const char* what) {
  const auto found = generation.cost.find(what);
  return found == generation.cost.end() ? 0 : found->second;
}

json counts_json(const AnswerCounts& counts) {
  return {{"answers", counts.answers},
          {"readable", counts.readable},
          {"built", counts.built},
          {"correct", counts.correct},
          {"best_speedup", counts.best > 0 ? json(counts.best) : json(nullptr)}};
}

}  // namespace

ModelSummary model_summary(const std::vector<Experience>& experiences, const std::string& best_baseline) {
  ModelSummary summary;
  struct Ends {
    std::int64_t last_turn = -1;
    double last = -1, best = -1;  ///< speedups; negative: not correct
  };
  std::map<std::int64_t, Ends> conversations;
  for (const Experience& experience : experiences) {
    if (!experience.generation || experience.verdict.depth == Depth::kFinal) continue;
    if (experience.verdict.outcome == Outcome::kInfra) continue;  // a resumed run evaluates it again
    const Lineage& lineage = experience.lineage;
    const double speedup = speedup_of(experience, best_baseline);
    count(summary.all, experience, speedup);
    summary.prompt_tokens += cost_of(*experience.generation, "prompt_tokens");
    summary.answer_tokens += cost_of(*experience.generation, "answer_tokens");
    summary.seconds += cost_of(*experience.generation, "seconds");
    summary.usd += cost_of(*experience.generation, "usd");
    const bool talks = lineage.branch >= 0 && lineage.operation != "contrast";
    if (!talks || lineage.turn < 0 || lineage.turn > 1000) continue;
    const auto turn = static_cast<std::size_t>(lineage.turn);
    if (summary.turns.size() <= turn) summary.turns.resize(turn + 1);
    count(summary.turns[turn], experience, speedup);
    Ends& ends = conversations[lineage.branch];
    const double value = experience.verdict.passed() ? speedup : -1;
    if (lineage.turn >= ends.last_turn) ends.last_turn = lineage.turn, ends.last = value;
    ends.best = std::max(ends.best, value);
  }
  if (summary.turns.size() < 2) {
    summary.turns.clear();
    return summary;
  }
  for (const auto& [branch, ends] : conversations) {
    ++summary.conversations;
    summary.last_correct += ends.last >= 0;
    summary.last_faster += ends.last > 1;
    summary.best_correct += ends.best >= 0;
    summary.best_faster += ends.best > 1;
  }
  return summary;
}

json to_json(const ModelSummary& summary) {
  if (!summary.exists()) return nullptr;
  json document = counts_json(summary.all);
  document["prompt_tokens"] = summary.prompt_tokens;
  document["answer_tokens"] = summary.answer_tokens;
  document["seconds"] = summary.seconds;
  document["usd"] = summary.usd;
  document["turns"] = json::array();
  for (const AnswerCounts& turn : summary.turns) document["turns"].push_back(counts_json(turn));
  document["conversations"] = {{"count", summary.conversations},
                               {"last_correct", summary.last_correct},
                               {"last_faster", summary.last_faster},
                               {"best_correct", summary.best_correct},
                               {"best_faster", summary.best_faster}};
  return document;
}

std::string to_text(const ModelSummary& summary) {
  std::string text = fmt::format(
      "{} answers, {} built, {} correct; {:.0f} + {:.0f} tokens, {:.0f} s of writing", summary.all.answers,
      summary.all.built, summary.all.correct, summary.prompt_tokens, summary.answer_tokens, summary.seconds);
  if (summary.usd > 0) text += fmt::format(", ${:.4f}", summary.usd);
  return text;
}

std::string turns_text(const ModelSummary& summary) {
  if (summary.conversations == 0) return "";
  return fmt::format(
      "of {0} conversations, the last turn: {1} correct, {2} faster than the best peer; the best turn: {3} "
      "correct, {4} faster",
      summary.conversations, summary.last_correct, summary.last_faster, summary.best_correct,
      summary.best_faster);
}

}  // namespace lathe
