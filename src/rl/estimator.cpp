#include "rl/estimator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/named.h"

namespace lathe::rl {
namespace {

using Values = std::vector<std::optional<double>>;

constexpr double kLeastDeviation = 1e-6;  // of a group whose returns are equal, which teaches nothing

struct Sum {
  double count = 0, total = 0, squares = 0;

  void add(double x) { count += 1, total += x, squares += x * x; }
  double mean() const { return total / count; }
  double mean_of_others(double x) const { return (total - x) / (count - 1); }
  double deviation() const { return std::sqrt(std::max(0.0, squares / count - mean() * mean())); }
};

/// Of each turn with a return, what `advantage` makes of the return and the sums of its group.
template <class Key, class Advantage>
Values against_group(std::span<const Turn> turns, const Values& values, Key key, Advantage advantage) {
  std::map<decltype(key(turns[0])), Sum> groups;
  for (std::size_t i = 0; i < turns.size(); ++i)
    if (values[i]) groups[key(turns[i])].add(*values[i]);
  Values advantages(turns.size());
  for (std::size_t i = 0; i < turns.size(); ++i)
    if (values[i]) advantages[i] = advantage(*values[i], groups.at(key(turns[i])));
  return advantages;
}

std::pair<std::int64_t, std::int64_t> prompt_and_turn(const Turn& turn) { return {turn.prompt, turn.turn}; }

double leave_one_out(double value, const Sum& group) {
  return group.count > 1 ? value - group.mean_of_others(value) : value;
}

Values reinforce(std::span<const Turn>, std::span<const std::optional<double>> returns) {
  return {returns.begin(), returns.end()};
}

Values grpo(std::span<const Turn> turns, std::span<const std::optional<double>> returns) {
  return against_group(turns, {returns.begin(), returns.end()}, prompt_and_turn,
                       [](double value, const Sum& group) {
                         return (value - group.mean()) / (group.deviation() + kLeastDeviation);
                       });
}

Values grpo_no_std(std::span<const Turn> turns, std::span<const std::optional<double>> returns) {
  return against_group(turns, {returns.begin(), returns.end()}, prompt_and_turn,
                       [](double value, const Sum& group) { return value - group.mean(); });
}

Values trloo(std::span<const Turn> turns, std::span<const std::optional<double>> returns) {
  return against_group(turns, {returns.begin(), returns.end()}, prompt_and_turn, leave_one_out);
}

Values rloo(std::span<const Turn> turns, std::span<const std::optional<double>> returns) {
  Values first(turns.size());
  for (std::size_t i = 0; i < turns.size(); ++i)
    if (turns[i].turn == 0) first[i] = returns[i];
  const Values of_first = against_group(
      turns, first, [](const Turn& turn) { return turn.prompt; }, leave_one_out);
  std::map<std::int64_t, std::optional<double>> of_sequence;
  for (std::size_t i = 0; i < turns.size(); ++i)
    if (turns[i].turn == 0) of_sequence[turns[i].sequence] = of_first[i];
  Values advantages(turns.size());
  for (std::size_t i = 0; i < turns.size(); ++i)
    if (const auto found = of_sequence.find(turns[i].sequence); found != of_sequence.end() && returns[i])
      advantages[i] = found->second;
  return advantages;
}

/// The mean, over all ways to take `count` of these values, of the largest one taken. `falling` is
/// sorted, and has `count` values or more.
double mean_of_largest(std::span<const double> falling, std::size_t count) {
  const auto size = static_cast<double>(falling.size()), taken = static_cast<double>(count);
  double share = taken / size, mean = 0;  // of the ways in which this value is the largest
  for (std::size_t i = 0; i < falling.size() && share > 0; ++i) {
    mean += share * falling[i];
    const auto before = static_cast<double>(i);
    share *= (size - taken - before) / (size - 1 - before);
  }
  return mean;
}

/// The best of K with this answer among them, less the best of K others. Both averages are over all
/// choices of the others in the group, and the second is independent of this answer, so K times the
/// difference is unbiased for the gradient of the expected best of K.
template <std::size_t K>
Values best_of(std::span<const Turn> turns, std::span<const std::optional<double>> returns) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>> groups;
  for (std::size_t i = 0; i < turns.size(); ++i)
    if (returns[i]) groups[prompt_and_turn(turns[i])].push_back(*returns[i]);
  for (auto& [key, values] : groups) std::ranges::sort(values, std::greater());
  Values advantages(turns.size());
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (!returns[i]) continue;
    const double value = *returns[i];
    std::vector<double> others = groups.at(prompt_and_turn(turns[i]));
    others.erase(std::ranges::find(others, value));
    const std::size_t count = std::min(K, others.size());
    if (count == 0) {
      advantages[i] = value;
      continue;
    }
    const double without = mean_of_largest(others, count);
    for (double& other : others) other = std::max(other, value);
    const double with = count == 1 ? value : mean_of_largest(others, count - 1);
    advantages[i] = static_cast<double>(count) * (with - without);
  }
  return advantages;
}

constexpr std::array<Estimator, 7> kEstimators{{
    {"best_of_16", "as best_of_4, of sixteen", best_of<16>},
    {"best_of_4", "4 (mean best of G and three others of the group - mean best of four others)", best_of<4>},
    {"grpo", "(G - mean of the group) / standard deviation of the group", grpo},
    {"grpo_no_std", "G - mean of the group", grpo_no_std},
    {"reinforce", "G", reinforce},
    {"rloo", "of a whole sequence: G of its first turn - mean of the other sequences' of the prompt", rloo},
    {"trloo", "G - mean of the others of the group; G where there are none", trloo},
}};

}  // namespace

std::vector<std::optional<double>> returns(std::span<const Turn> turns, double gamma) {
  std::map<std::int64_t, std::vector<std::size_t>> sequences;
  for (std::size_t i = 0; i < turns.size(); ++i) sequences[turns[i].sequence].push_back(i);
  Values values(turns.size());
  for (auto& [sequence, indices] : sequences) {
    std::ranges::sort(indices, std::greater(), [&](std::size_t i) { return turns[i].turn; });
    std::optional<double> later = 0.0;
    for (const std::size_t i : indices) {
      const std::optional<double> reward = turns[i].reward;
      if (gamma == 0) later = 0.0;
      values[i] = reward && later ? std::optional(*reward + gamma * *later) : std::nullopt;
      later = values[i];
    }
  }
  return values;
}

std::span<const Estimator> estimators() { return kEstimators; }

Result<Estimator> find_estimator(std::string_view name) { return find_named(kEstimators, name, "estimator"); }

}  // namespace lathe::rl
