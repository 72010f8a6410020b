#include "rl/filter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/statistics.h"

namespace lathe::rl {
namespace {

constexpr double kUsualShare = 0.3, kShareRamp = 0.1;  // arXiv 2602.05885

struct LogRatio {
  double sum = 0;
  double tokens = 0;

  double mean() const { return tokens > 0 ? sum / tokens : 0; }
};

bool is_inside(double log_ratio, const MismatchOptions& options) {
  const double ratio = std::exp(log_ratio);
  return ratio >= options.low && ratio <= options.high;
}

}  // namespace

Result<RejectionScope> parse_rejection_scope(std::string_view name) {
  if (name == "none") return RejectionScope::kNone;
  if (name == "token") return RejectionScope::kToken;
  if (name == "turn") return RejectionScope::kTurn;
  if (name == "trajectory") return RejectionScope::kTrajectory;
  return invalid("unknown scope '" + std::string(name) + "'", "one of: none, token, turn, trajectory");
}

std::vector<std::vector<bool>> reject_mismatch(std::span<const Mismatch> answers,
                                               const MismatchOptions& options) {
  std::map<std::int64_t, LogRatio> trajectories;
  std::map<std::int64_t, bool> vetoed;
  for (const Mismatch& answer : answers)
    for (std::size_t i = 0; i < answer.rollout.size(); ++i) {
      const double difference = answer.train[i] - answer.rollout[i];
      trajectories[answer.sequence].sum += difference;
      trajectories[answer.sequence].tokens += 1;
      if (std::exp(difference) < options.veto) vetoed[answer.sequence] = true;
    }

  std::vector<std::vector<bool>> kept;
  for (const Mismatch& answer : answers) {
    std::vector<bool> tokens(answer.rollout.size(), true);
    if (options.scope == RejectionScope::kNone) {
      kept.push_back(std::move(tokens));
      continue;
    }
    LogRatio turn;
    bool veto = false;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const double difference = answer.train[i] - answer.rollout[i];
      turn.sum += difference, turn.tokens += 1;
      veto = veto || std::exp(difference) < options.veto;
      if (options.scope == RejectionScope::kToken) tokens[i] = is_inside(difference, options);
    }
    const bool whole = options.scope == RejectionScope::kTrajectory;
    const double of_scope = whole ? trajectories[answer.sequence].mean() : turn.mean();
    if (whole) veto = vetoed.contains(answer.sequence);
    if (veto || (options.scope != RejectionScope::kToken && !is_inside(of_scope, options)))
      tokens.assign(tokens.size(), false);
    kept.push_back(std::move(tokens));
  }
  return kept;
}

MismatchReport measure_mismatch(std::span<const Mismatch> answers) {
  MismatchReport report;
  double tokens = 0, least = 0;
  for (const Mismatch& answer : answers)
    for (std::size_t i = 0; i < answer.rollout.size(); ++i) {
      const double difference = answer.train[i] - answer.rollout[i];
      report.mean_absolute += std::abs(difference);
      report.kl += std::expm1(difference) - difference;
      least = std::min(least, difference);
      tokens += 1;
    }
  if (tokens == 0) return report;
  report.mean_absolute /= tokens;
  report.kl /= tokens;
  report.least_ratio = std::exp(least);
  return report;
}

double keep_probability(double launched_share) {
  return std::clamp((launched_share - kUsualShare) / kShareRamp, 0.0, 1.0);
}

double RewardSmoother::operator()(double reward) {
  latest_.push_back(reward);
  if (latest_.size() > window_) latest_.pop_front();
  const std::vector<double> values(latest_.begin(), latest_.end());
  const double deviation = stddev(values);
  if (!(deviation > 0)) return 0;
  return std::clamp((reward - mean(values)) / deviation, -clip_, clip_);
}

}  // namespace lathe::rl
