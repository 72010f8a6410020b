#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"

namespace lathe::rl {

/// One answer's log-probabilities: as it was sampled, and as the weights that are trained have
/// them. Both have one number for each token.
struct Mismatch {
  std::int64_t sequence = 0;
  std::span<const double> rollout;
  std::span<const double> train;
};

/// Which tokens stand or fall together.
enum class RejectionScope { kNone, kToken, kTurn, kTrajectory };
Result<RejectionScope> parse_rejection_scope(std::string_view name);  ///< "none", "token", ...

/// Mismatch rejection sampling (Dr. Kernel). The ratio of a scope is the geometric mean of p_train
/// / p_rollout over its tokens.
struct MismatchOptions {
  RejectionScope scope = RejectionScope::kNone;
  double low = 0.999, high = 1.001;  ///< a scope with a ratio outside is left out
  double veto = 1e-4;                ///< so is an answer with a token whose ratio is below
};

/// Of each answer which tokens count. A trajectory is all answers of a sequence.
std::vector<std::vector<bool>> reject_mismatch(std::span<const Mismatch> answers,
                                               const MismatchOptions& options);

/// How far the probabilities of sampling and training lie apart.
struct MismatchReport {
  double mean_absolute = 0;  ///< of log p_train - log p_rollout, over all tokens
  double kl = 0;             ///< of the rollouts from the trained weights, estimated by k3
  double least_ratio = 1;    ///< of a token
};
MismatchReport measure_mismatch(std::span<const Mismatch> answers);

/// Profiling-based rejection sampling (Dr. Kernel): the probability with which a correct answer
/// counts whose own kernels take `launched_share` of the device's time, clip((share - 0.3) / 0.1,
/// 0, 1).
double keep_probability(double launched_share);

/// The mean and standard deviation of the latest rewards, and rewards by these (CUDA-L1): a few
/// that stand out do not lead the updates.
class RewardSmoother {
 public:
  /// `window` rewards, and `clip` deviations at most.
  explicit RewardSmoother(std::size_t window = 1024, double clip = 1.5) : window_(window), clip_(clip) {}

  /// clip((reward - mean) / deviation) over the window with this reward in it; 0 while all are
  /// equal.
  double operator()(double reward);

  const std::deque<double>& latest() const { return latest_; }
  void restore(std::deque<double> latest) { latest_ = std::move(latest); }

 private:
  std::size_t window_;
  double clip_;
  std::deque<double> latest_;
};

}  // namespace lathe::rl
