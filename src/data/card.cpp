#include "data/card.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "candidate/candidate.h"
#include "task/dtype.h"

namespace lathe {
namespace {

constexpr std::array kSpeedupEdges = {0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0};

class Card {
 public:
  explicit Card(const std::vector<LanguageData>& data) : data_(data) {}

  Status add(const DataTask& task) {
    LATHE_TRY(const std::vector<Experience> experiences, task.store->experiences(task.run.id));
    ++tasks_[task.split];
    compositions_[task.split].insert(task.composition);
    devices_.insert(task.device.device.name);
    prepare_seconds_ += task.prepare_seconds;
    evaluate_seconds_ += task.evaluate_seconds;
    for (const Experience& experience : experiences) add_evaluation(experience, *task.task, task.best_peer);
    return Ok{};
  }

  std::string text() const {
    std::string text = fmt::format("# Data card\n\nMade on {}.\n\n", fmt::join(devices_, ", "));
    text += "| split | tasks | compositions | language | kind | examples | prompt tokens | answer tokens |\n";
    text += "|---|---|---|---|---|---|---|---|\n";
    for (const Split split : kSplits)
      for (const LanguageData& one : data_)
        for (const auto& [key, sums] : one.by_kind)
          if (key.first == split)
            text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", name(split),
                                count(tasks_, split), compositions_of(split).size(), one.language, key.second,
                                sums.count, sums.prompt_tokens, sums.answer_tokens);
    text += fmt::format(
        "\nTokens are estimated at three bytes each. Of {} held-out compositions {} occur in "
        "training.\n\n",
        compositions_of(Split::kCompositions).size(), leaked());
    text += fmt::format(
        "{} candidates were judged, {} of them timed. Waiting for tasks to be prepared took "
        "{:.0f} s, evaluations {:.0f} s.\n",
        judged_, timed_, prepare_seconds_, evaluate_seconds_);
    text += table("Verdicts", "verdict", verdicts_) +
            table("Patterns of kernels that passed", "pattern", patterns_) +
            table("Dtypes of kernels that passed", "dtypes", dtypes_);
    text += "\n## Speedups over the best peer, lower bounds\n\n| speedup | kernels |\n|---|---|\n";
    for (std::size_t i = 0; i <= kSpeedupEdges.size(); ++i)
      text += fmt::format("| {} | {} |\n", bin_name(i), speedups_.contains(i) ? speedups_.at(i) : 0);
    return text;
  }

 private:
  using Counts = std::map<std::string, std::int64_t>;

  void add_evaluation(const Experience& experience, const TaskSpec& spec, const std::string& peer) {
    const Verdict& verdict = experience.verdict;
    ++judged_;
    timed_ += !verdict.timings.empty();
    ++verdicts_[fmt::format("{} ({})", name(verdict.outcome), verdict.reason)];
    if (!verdict.passed()) return;
    std::set<std::string> dtypes;
    for (const TensorDecl& tensor : spec.tensors) dtypes.insert(std::string(info(tensor.dtype).name));
    ++dtypes_[fmt::format("{}", fmt::join(dtypes, " "))];
    const auto candidate = parse_candidate(experience.candidate_text, "candidate");
    if (candidate.ok()) ++patterns_[candidate->plan().pattern];
    if (const auto speedup = verdict.speedup(peer); speedup && !verdict.timings.empty())
      ++speedups_[static_cast<std::size_t>(std::ranges::upper_bound(kSpeedupEdges, speedup->low) -
                                           kSpeedupEdges.begin())];
  }

  static std::string bin_name(std::size_t bin) {
    if (bin == 0) return fmt::format("below {}", kSpeedupEdges.front());
    if (bin == kSpeedupEdges.size()) return fmt::format("{} and more", kSpeedupEdges.back());
    return fmt::format("{} to {}", kSpeedupEdges[bin - 1], kSpeedupEdges[bin]);
  }

  static std::string table(const char* title, const char* what, const Counts& counts) {
    std::vector<std::pair<std::int64_t, std::string>> rows;
    for (const auto& [key, value] : counts) rows.emplace_back(-value, key);
    std::ranges::sort(rows);
    std::string text = fmt::format("\n## {}\n\n| {} | count |\n|---|---|\n", title, what);
    for (const auto& [negative, key] : rows) text += fmt::format("| {} | {} |\n", key, -negative);
    return text;
  }

  static std::int64_t count(const std::map<Split, std::int64_t>& counts, Split split) {
    const auto found = counts.find(split);
    return found == counts.end() ? 0 : found->second;
  }

  std::set<std::string> compositions_of(Split split) const {
    const auto found = compositions_.find(split);
    return found == compositions_.end() ? std::set<std::string>() : found->second;
  }

  std::int64_t leaked() const {
    const std::set<std::string> trained = compositions_of(Split::kTrain);
    return std::ranges::count_if(compositions_of(Split::kCompositions),
                                 [&](const std::string& one) { return trained.contains(one); });
  }

  const std::vector<LanguageData>& data_;
  std::map<Split, std::int64_t> tasks_;
  std::map<Split, std::set<std::string>> compositions_;
  std::set<std::string> devices_;
  Counts verdicts_, patterns_, dtypes_;
  std::map<std::size_t, std::int64_t> speedups_;  ///< by bin of kSpeedupEdges
  std::int64_t judged_ = 0, timed_ = 0;
  double prepare_seconds_ = 0, evaluate_seconds_ = 0;
};

}  // namespace

Result<std::string> data_card(const std::vector<DataTask>& tasks, const std::vector<LanguageData>& data) {
  Card card(data);
  for (const DataTask& task : tasks) LATHE_CHECK_OK(card.add(task));
  return card.text();
}

}  // namespace lathe
