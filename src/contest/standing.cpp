#include "contest/standing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "report/metrics.h"

namespace lathe {
namespace {

constexpr double kAlpha = 0.05;
constexpr int kResamples = 2000;
constexpr double kTie = 0.02;  // best kernels this near in log speedup are equals: a screen tells no more
constexpr std::size_t kShownLosses = 8;
constexpr std::array kBudgets = {1, 4, 16, 64};  // evaluations

Interval interval_of(const std::vector<double>& values) {
  Rng rng(Seed::from_number(values.size()));
  return bootstrap_interval(values, kAlpha, kResamples, rng);
}

std::string percent(const Interval& interval) {
  return fmt::format("{:.1f}% [{:.1f}, {:.1f}]", 100 * interval.mid, 100 * interval.low, 100 * interval.high);
}
std::string points(const Interval& interval) {
  return fmt::format("{:+.1f} [{:+.1f}, {:+.1f}]", 100 * interval.mid, 100 * interval.low,
                     100 * interval.high);
}
std::string factor(const Interval& logs) {
  return fmt::format("{:.3f}x [{:.3f}, {:.3f}]", std::exp(logs.mid), std::exp(logs.low), std::exp(logs.high));
}

template <class Scores, class Of>
std::vector<double> each(const Scores& scores, const std::vector<Digest>& tasks, Of of) {
  std::vector<double> values;
  for (const Digest& task : tasks) values.push_back(of(scores.at(task)));
  return values;
}

}  // namespace

Interval bootstrap_interval(std::span<const double> xs, double alpha, int resamples, Rng& rng) {
  if (xs.empty()) return {};
  std::vector<double> means(static_cast<std::size_t>(resamples));
  for (double& one : means) {
    double sum = 0;
    for (std::size_t i = 0; i < xs.size(); ++i) sum += xs[rng.below(xs.size())];
    one = sum / static_cast<double>(xs.size());
  }
  return {quantile(means, alpha / 2), mean(xs), quantile(means, 1 - alpha / 2)};
}

TaskScore::TaskScore(std::vector<ContestSample> samples) {
  std::ranges::sort(samples, {}, &ContestSample::number);
  for (const ContestSample& sample : samples) {
    const double low = sample.correct() ? sample.speedup_low : 0;
    threads_ = sample.threads;
    ordered_ = sample.ordered;
    if (sample.number == 0) {
      greedy_ = low;
      continue;
    }
    built_ += sample.built();
    lows_.push_back(low);
  }
}

double TaskScore::build_rate() const { return lows_.empty() ? 0 : static_cast<double>(built_) / count(); }

double TaskScore::fast_at(double p, int k) const {
  const int taken = std::min(k, count());
  if (taken == 0) return 0;
  const auto fast = [&](double low) { return low > p; };
  if (ordered_) return std::any_of(lows_.begin(), lows_.begin() + taken, fast) ? 1 : 0;
  return pass_at_k(count(), std::ranges::count_if(lows_, fast), taken);
}

double TaskScore::speedup_at(int k) const {
  const int taken = std::min(k, count());
  if (taken == 0) return 0;
  if (ordered_) return *std::max_element(lows_.begin(), lows_.begin() + taken);
  return speedup_at_k(lows_, taken);
}

double TaskScore::efficiency_at(int k) const {
  const int taken = std::min(k, count());
  if (taken == 0) return 0;
  if (ordered_) return speedup_at(k) / threads_;
  return efficiency_at_k(lows_, std::vector<double>(lows_.size(), threads_), taken);
}

double TaskScore::best() const { return lows_.empty() ? 0 : std::ranges::max(lows_); }

Standing::Standing(const std::vector<ContestSample>& samples) {
  std::map<std::string, std::map<Digest, std::vector<ContestSample>>> sorted;
  std::map<Digest, std::string> group_of;
  std::set<std::string> devices;
  for (const ContestSample& sample : samples) {
    sorted[sample.entrant][sample.task].push_back(sample);
    group_of.emplace(sample.task, sample.group);
    task_names_.emplace(sample.task, sample.task_name);
    devices.insert(sample.device);
    samples_ = std::max(samples_, static_cast<int>(sample.number));
  }
  device_ = fmt::format("{}", fmt::join(devices, "; "));
  for (auto& [entrant, tasks] : sorted)
    for (auto& [task, its] : tasks) entrants_[entrant].emplace(task, TaskScore(std::move(its)));
  std::map<std::string, Group> groups;
  Group all{"all tasks", {}};
  for (const auto& [task, group] : group_of) {
    const auto knows = [&task = task](const auto& entry) { return entry.second.contains(task); };
    if (!std::ranges::all_of(entrants_, knows)) {
      ++left_out_;
      continue;
    }
    all.tasks.push_back(task);
    groups[group].tasks.push_back(task);
  }
  groups_.push_back(std::move(all));
  if (groups.size() > 1)
    for (auto& [name, group] : groups) groups_.push_back({name, std::move(group.tasks)});
}

Result<std::string> Standing::table(const std::string& subject) const {
  if (!entrants_.contains(subject)) {
    std::vector<std::string> names;
    for (const auto& [name, tasks] : entrants_) names.push_back(name);
    return invalid(fmt::format("no samples are of '{}'", subject),
                   names.empty() ? "make some with: lathe policy eval"
                                 : fmt::format("there are: {}", fmt::join(names, ", ")));
  }
  if (groups_.front().tasks.empty()) return invalid("no task has samples of every entrant");
  std::string text = fmt::format(
      "{}. {} evaluations of each entrant at each of {} tasks at most; speedups are lower bounds over each "
      "task's fastest peer; intervals: 95%, bootstrapped over tasks.\n",
      device_, samples_, groups_.front().tasks.size());
  if (left_out_ > 0) text += fmt::format("{} tasks that some entrant has not are left out.\n", left_out_);
  if (entrants_.size() > 1) {
    for (const Group& group : groups_) text += duels(subject, group) + budgets(subject, group);
    text += losses(subject, groups_.front());
  }
  for (const Group& group : groups_) text += scores(group);
  return text;
}

/// The subject against each other entrant at equal evaluations, the worst first.
std::string Standing::duels(const std::string& subject, const Group& group) const {
  const Tasks& own = entrants_.at(subject);
  std::vector<std::pair<double, std::string>> rows;
  for (const auto& [other, theirs] : entrants_) {
    if (other == subject) continue;
    std::vector<double> one, all, ratios;
    int lost = 0, tied = 0, won = 0;
    for (const Digest& task : group.tasks) {
      const TaskScore &mine = own.at(task), &its = theirs.at(task);
      one.push_back(mine.fast_at(0, 1) - its.fast_at(0, 1));
      all.push_back(mine.fast_at(0, samples_) - its.fast_at(0, samples_));
      const bool mine_passes = mine.best() > 0, its_passes = its.best() > 0;
      double ratio = static_cast<double>(mine_passes) - static_cast<double>(its_passes);
      if (mine_passes && its_passes) ratios.push_back(ratio = std::log(mine.best() / its.best()));
      lost += ratio < -kTie;
      won += ratio > kTie;
      tied += std::abs(ratio) <= kTie;
    }
    const Interval speed = interval_of(ratios);
    rows.emplace_back(
        ratios.empty() ? interval_of(all).mid : speed.mid,
        fmt::format("| {} | {} | {}/{}/{} | {} | {} |\n", other, ratios.empty() ? "-" : factor(speed), lost,
                    tied, won, points(interval_of(one)), points(interval_of(all))));
  }
  std::ranges::sort(rows);
  std::string text = fmt::format(
      "\n## {} against the others: {}, {} tasks\n\n| against | best of {}, ratio where both are correct | "
      "lost/tied/won | pass@1, points | pass@{}, points |\n|---|---|---|---|---|\n",
      subject, group.name, group.tasks.size(), samples_, samples_);
  for (const auto& [ratio, row] : rows) text += row;
  return text;
}

/// How far each comes with how many evaluations, and whether the subject needs fewer of them.
std::string Standing::budgets(const std::string& subject, const Group& group) const {
  std::vector<int> budgets;
  std::ranges::copy_if(kBudgets, std::back_inserter(budgets), [&](int k) { return k <= samples_; });
  const auto ratio = [&](const Tasks& ours, int our_k, const Tasks* theirs, int their_k) -> std::string {
    std::vector<double> logs;
    for (const Digest& task : group.tasks) {
      const double mine = ours.at(task).speedup_at(our_k);
      const double its = theirs == nullptr ? 1 : theirs->at(task).speedup_at(their_k);
      if (mine > 0 && its > 0) logs.push_back(std::log(mine / its));
    }
    return logs.empty() ? "-" : factor(interval_of(logs));
  };
  const auto heading = [](const std::vector<std::string>& columns) {
    std::string rule;
    for (std::size_t i = 0; i < columns.size(); ++i) rule += "---|";
    return fmt::format("\n| {} |\n|{}\n", fmt::join(columns, " | "), rule);
  };
  struct Pair {
    int own, other;
  };
  std::vector<Pair> pairs;  // equal evaluations, and a quarter of the other's
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    if (i > 0) pairs.push_back({budgets[i - 1], budgets[i]});
    pairs.push_back({budgets[i], budgets[i]});
  }
  std::vector<std::string> alone = {"entrant"}, against = {"against"};
  for (const int k : budgets) alone.push_back(std::to_string(k));
  for (const Pair& pair : pairs) against.push_back(fmt::format("{} to {}", pair.own, pair.other));

  std::string text = fmt::format(
      "\n## By evaluations: {}, {} tasks\n\nThe best of so many, geometric mean where there is a correct "
      "one.\n",
      group.name, group.tasks.size());
  text += heading(alone);
  for (const auto& [name, tasks] : entrants_) {
    text += fmt::format("| {} |", name);
    for (const int k : budgets) text += fmt::format(" {} |", ratio(tasks, k, nullptr, k));
    text += "\n";
  }
  text += fmt::format("\nThe best of {}'s over the best of another's, where both are correct.\n", subject);
  text += heading(against);
  for (const auto& [other, tasks] : entrants_) {
    if (other == subject) continue;
    text += fmt::format("| {} |", other);
    for (const Pair& pair : pairs)
      text += fmt::format(" {} |", ratio(entrants_.at(subject), pair.own, &tasks, pair.other));
    text += "\n";
  }
  return text;
}

/// The tasks at which the best of all others is farthest ahead.
std::string Standing::losses(const std::string& subject, const Group& group) const {
  struct Loss {
    double log_ratio;
    std::string row;
  };
  std::vector<Loss> found;
  for (const Digest& task : group.tasks) {
    const double mine = entrants_.at(subject).at(task).best();
    double most = 0;
    std::string who;
    for (const auto& [other, theirs] : entrants_)
      if (other != subject && theirs.at(task).best() > most) most = theirs.at(task).best(), who = other;
    const double ratio = mine > 0 ? std::log(mine / std::max(most, 1e-9)) : -most;
    if (most == 0 || ratio >= -kTie) continue;
    found.push_back(
        {ratio, fmt::format("| {} | {:.2f}x | {:.2f}x | {} |\n", task_names_.at(task), mine, most, who)});
  }
  std::ranges::sort(found, {}, &Loss::log_ratio);
  std::string text =
      fmt::format("\n## Where {} lost most\n\n{} of {} tasks were lost to some other entrant.\n", subject,
                  found.size(), group.tasks.size());
  if (found.empty()) return text;
  text += "\n| task | its best | the best of all | by |\n|---|---|---|---|\n";
  for (std::size_t i = 0; i < std::min(found.size(), kShownLosses); ++i) text += found[i].row;
  return text;
}

std::string Standing::scores(const Group& group) const {
  struct Row {
    double order;
    std::string text;
  };
  std::vector<Row> rows, greedy;
  const int n = samples_, some = std::min(4, n);
  for (const auto& [name, scores] : entrants_) {
    const auto& tasks = scores;
    const auto share = [&](auto of) { return interval_of(each(tasks, group.tasks, of)); };
    const auto at = [&](double p, int k) {
      return share([&](const TaskScore& score) { return score.fast_at(p, k); });
    };
    const auto speed = [&](int k) {
      return mean(each(tasks, group.tasks, [&](const TaskScore& score) { return score.speedup_at(k); }));
    };
    std::vector<double> logs;
    for (const Digest& task : group.tasks)
      if (const double best = tasks.at(task).best(); best > 0) logs.push_back(std::log(best));
    const double efficiency =
        mean(each(tasks, group.tasks, [&](const TaskScore& score) { return score.efficiency_at(n); }));
    rows.push_back(
        {logs.empty() ? -std::numeric_limits<double>::infinity() : mean(logs),
         fmt::format("| {} | {:.1f}% | {} | {} | {:.0f}% / {:.0f}% / {:.0f}% | {:.0f}% / {:.0f}% / {:.0f}% | "
                     "{:.2f} / {:.2f} / {:.2f} | {:.2f} | {} |\n",
                     name, 100 * share([](const TaskScore& score) { return score.build_rate(); }).mid,
                     percent(at(0, 1)), percent(at(0, n)), 100 * at(1, 1).mid, 100 * at(1.2, 1).mid,
                     100 * at(2, 1).mid, 100 * at(1, n).mid, 100 * at(1.2, n).mid, 100 * at(2, n).mid,
                     speed(1), speed(some), speed(n), efficiency,
                     logs.empty() ? "-" : factor(interval_of(logs)))});
    if (!std::ranges::all_of(group.tasks, [&](const Digest& task) { return tasks.at(task).has_greedy(); }))
      continue;
    const auto low = each(tasks, group.tasks, [](const TaskScore& score) { return score.greedy_low(); });
    std::vector<TaskResult> results;
    std::vector<double> greedy_logs;
    for (const double one : low) {
      results.push_back({one > 0, one});
      if (one > 0) greedy_logs.push_back(std::log(one));
    }
    greedy.push_back(
        {greedy_logs.empty() ? -std::numeric_limits<double>::infinity() : mean(greedy_logs),
         fmt::format("| {} | {:.0f}% / {:.0f}% / {:.0f}% / {:.0f}% | {} |\n", name, 100 * fast_p(results, 0),
                     100 * fast_p(results, 1), 100 * fast_p(results, 1.2), 100 * fast_p(results, 2),
                     greedy_logs.empty() ? "-" : factor(interval_of(greedy_logs)))});
  }
  std::ranges::sort(rows, {}, &Row::order);
  std::ranges::sort(greedy, {}, &Row::order);
  std::string text = fmt::format(
      "\n## All entrants: {}, {} tasks\n\n| entrant | build rate | pass@1 | pass@{} | fast_1 / 1.2 / 2 of "
      "one | "
      "of {} | speedup@1 / {} / {} | efficiency@{} | best of {}, geometric mean where correct "
      "|\n|---|---|---|---|---|---|---|---|---|\n",
      group.name, group.tasks.size(), n, n, some, n, n, n);
  for (const Row& row : rows) text += row.text;
  if (greedy.empty()) return text;
  text += "\n| greedy answer | fast_0 / 1 / 1.2 / 2 | geometric mean where correct |\n|---|---|---|\n";
  for (const Row& row : greedy) text += row.text;
  return text;
}

}  // namespace lathe
