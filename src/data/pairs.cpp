#include "data/pairs.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "prompt/fence.h"
#include "record/json.h"

namespace lathe {
namespace {

using nlohmann::json;

class PairWriter {
 public:
  PairWriter(const PairSource& source, const PairOptions& options) : source_(source), options_(options) {
    for (const Experience& experience : source.experiences) {
      const auto speedup = experience.verdict.speedup(source.peer);
      const double fitness = experience.verdict.passed() && speedup ? speedup->low : 0;
      const auto attempt = std::make_shared<const Attempt>(Attempt{experience, fitness});
      by_candidate_[experience.candidate] = attempt;  // a later, deeper evaluation counts
    }
    for (const auto& [candidate, attempt] : by_candidate_) {
      const bool is_fault = attempt->experience.lineage.policy == kFaultPolicy;
      if (is_fault && !attempt->experience.verdict.passed()) faults_.push_back(attempt);
      if (!is_fault && attempt->fitness > 0) passed_.push_back(attempt);
    }
    std::ranges::sort(passed_, [](const auto& a, const auto& b) {
      return std::pair(-a->fitness, a->experience.candidate) <
             std::pair(-b->fitness, b->experience.candidate);
    });
  }

  Result<std::vector<json>> write() {
    LATHE_TRY(wording_, source_.language.wording(source_.context));
    if (wording_) leave_out_unspoken();
    if (passed_.empty()) return std::move(lines_);
    LATHE_CHECK_OK(write_first());
    LATHE_CHECK_OK(write_better());
    LATHE_CHECK_OK(write_fixed());
    return std::move(lines_);
  }

 private:
  using AttemptPtr = History::value_type;

  /// Kernels that no answer means: other authors wrote them.
  void leave_out_unspoken() {
    const auto unspoken = [&](const AttemptPtr& attempt) {
      const auto meant = source_.language.candidate(source_.context, wording_->shown(attempt->experience));
      return !meant.ok() || *meant != attempt->experience.candidate_text;
    };
    std::erase_if(passed_, unspoken);
    faults_.clear();
  }

  std::string answer_text(const Experience& experience) const {
    return wording_ ? wording_->shown(experience) : fenced(experience.candidate_text, "cpp");
  }

  Status add(const char* kind, const AttemptPtr& answer, const History& shown, const std::string& said) {
    const PolicyContext& context = source_.context;
    LATHE_TRY(const Prompt prompt,
              source_.prompter.render({*context.task, context.device, context.peaks, shown, HistoryUse::kBest,
                                       wording_ ? &*wording_ : nullptr},
                                      options_.prompt));
    if (prompt.left_out > 0) return Ok{};
    const Experience& experience = answer->experience;
    std::string text = said.empty() || wording_ ? "" : said + "\n\n";
    text += answer_text(experience);
    lines_.push_back({{"kind", kind},
                      {"prompt", prompt.messages.back().content},
                      {"answer", std::move(text)},
                      {"experience", experience.id},
                      {"run", experience.run},
                      {"sequence", experience.sequence},
                      {"task_name", experience.task_name},
                      {"task", experience.task.hex()},
                      {"candidate", experience.candidate.hex()},
                      {"lineage", to_json(experience.lineage)}});
    return Ok{};
  }

  Status write_first() {
    const double least = options_.near_best * passed_.front()->fitness;
    for (std::size_t i = 0; i < passed_.size() && static_cast<int>(i) < options_.first; ++i)
      if (passed_[i]->fitness >= least) LATHE_CHECK_OK(add("first", passed_[i], {}, ""));
    return Ok{};
  }

  /// The kernel that an answer was derived from, else kernels spread evenly over those that are
  /// slower.
  Status write_better() {
    const double most = passed_.front()->fitness / options_.least_gain;
    const auto slower =
        std::ranges::find_if(passed_, [&](const AttemptPtr& attempt) { return attempt->fitness <= most; });
    const std::ptrdiff_t count = passed_.end() - slower;
    for (std::ptrdiff_t i = 0; i < std::min<std::ptrdiff_t>(options_.better, count); ++i) {
      const AttemptPtr& shown = slower[i * count / std::min<std::ptrdiff_t>(options_.better, count)];
      const AttemptPtr& answer = answer_to(shown);
      const std::string& change = answer->experience.lineage.description;
      const bool derived =
          std::ranges::find(answer->experience.lineage.parents, shown->experience.candidate) !=
          answer->experience.lineage.parents.end();
      LATHE_CHECK_OK(
          add("better", answer, {shown}, derived && !change.empty() ? "Change: " + change + "." : ""));
    }
    return Ok{};
  }

  /// The fastest that was derived from `shown` and is enough faster, else the fastest of all.
  const AttemptPtr& answer_to(const AttemptPtr& shown) const {
    for (const AttemptPtr& attempt : passed_) {
      if (attempt->fitness < options_.least_gain * shown->fitness) break;
      const auto& parents = attempt->experience.lineage.parents;
      if (std::ranges::find(parents, shown->experience.candidate) != parents.end()) return attempt;
    }
    return passed_.front();
  }

  Status write_fixed() {
    int written = 0;
    for (const AttemptPtr& attempt : faults_) {
      const Lineage& lineage = attempt->experience.lineage;
      if (lineage.parents.empty() || written == options_.fixed) continue;
      if (attempt->experience.verdict.outcome == Outcome::kInfra) continue;
      const auto whole = by_candidate_.find(lineage.parents.front());
      if (whole == by_candidate_.end() || whole->second->fitness <= 0) continue;
      LATHE_CHECK_OK(add("fixed", whole->second, {attempt}, lineage.description));
      ++written;
    }
    return Ok{};
  }

  const PairSource& source_;
  const PairOptions& options_;
  std::optional<Wording> wording_;
  std::map<Digest, AttemptPtr> by_candidate_;
  std::vector<AttemptPtr> passed_;  ///< best first
  std::vector<AttemptPtr> faults_;  ///< by digest, so in no order that means anything
  std::vector<json> lines_;
};

}  // namespace

Result<std::vector<json>> pairs_of(const PairSource& source, const PairOptions& options) {
  return PairWriter(source, options).write();
}

}  // namespace lathe
