#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/statistics.h"
#include "contest/sample.h"

namespace lathe {

/// Percentile bootstrap interval of the mean: of `resamples` draws of as many values with
/// replacement. `mid` is the mean itself. Without values all are 0.
Interval bootstrap_interval(std::span<const double> xs, double alpha, int resamples, Rng& rng);

/// What an entrant's evaluations of one task come to, speeds by the lower bounds of speedups over
/// the task's best peer.
class TaskScore {
 public:
  /// Samples of one entrant and task, in any order; greedy ones too.
  explicit TaskScore(std::vector<ContestSample> samples);

  int count() const { return static_cast<int>(lows_.size()); }
  double build_rate() const;
  /// Probability that one of `k` evaluations is correct and strictly more than `p` times as fast as
  /// the peer: unbiased for independent samples (Chen et al. 2021); of an ordered list its first
  /// `k`. For p = 0, pass@k.
  double fast_at(double p, int k) const;
  /// Expected best speedup of `k` evaluations, failures being 0: speedup@k; of an ordered list the
  /// best of its first `k`.
  double speedup_at(int k) const;
  double efficiency_at(int k) const;  ///< speedup_at() per thread or GPU
  double best() const;                ///< of all; 0 if none is correct
  bool has_greedy() const { return greedy_.has_value(); }
  double greedy_low() const { return greedy_.value_or(0); }  ///< 0 if it is not correct

 private:
  std::vector<double> lows_;  ///< by number; 0: not correct
  std::optional<double> greedy_;
  int built_ = 0, threads_ = 1;
  bool ordered_ = false;
};

/// All entrants of samples files side by side.
class Standing {
 public:
  explicit Standing(const std::vector<ContestSample>& samples);

  /// As Markdown: where `subject` stands against each of the others, its losses first; then all
  /// entrants by group of tasks. Intervals are bootstrapped over tasks. Only tasks that all
  /// entrants have count; those left out are named by number. Errors: kInvalid, there is no such
  /// entrant.
  Result<std::string> table(const std::string& subject) const;

 private:
  using Tasks = std::map<Digest, TaskScore>;
  struct Group {
    std::string name;
    std::vector<Digest> tasks;
  };
  std::string duels(const std::string& subject, const Group& group) const;
  std::string budgets(const std::string& subject, const Group& group) const;
  std::string losses(const std::string& subject, const Group& group) const;
  std::string scores(const Group& group) const;

  std::map<std::string, Tasks> entrants_;
  std::map<Digest, std::string> task_names_;
  std::vector<Group> groups_;  ///< of the tasks that all have; the first has all
  std::string device_;
  std::size_t left_out_ = 0;
  int samples_ = 0;  ///< the most that an entrant has of a task
};

}  // namespace lathe
