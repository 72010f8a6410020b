#pragma once

#include <optional>
#include <span>
#include <vector>

namespace lathe::rl {

/// The clipped objective of PPO with Dr. Kernel's constants, the dual clip for answers that were
/// worse than their peers, and a penalty for leaving a reference model.
struct SurrogateOptions {
  double clip_low = 0.2;
  double clip_high = 0.28;
  double dual_clip = 3;  ///< 0: none; else above 1
  double kl = 0;         ///< weight of k3()
};

/// A token's loss and its derivative by the token's log-probability: all that a learner has to
/// know.
struct TokenLoss {
  double loss = 0;
  double gradient = 0;
};

/// The estimate of how far a token's probability is from the reference's: Schulman's k3, exp(r) - r -
/// 1 with r = log p_ref - log p. Its mean over tokens that were drawn with p is their divergence,
/// and no term of it is negative.
double k3(double log_prob, double reference);

/// `old_log_prob` is the probability at which the token was sampled. `reference` matters where kl > 0.
TokenLoss surrogate(double log_prob, double old_log_prob, double advantage, const SurrogateOptions& options,
                    std::optional<double> reference = std::nullopt);

enum class LossMean {
  kTokens,    ///< over all tokens of a batch: long answers count more
  kSequences  ///< over answers, each the mean of its tokens
};

/// What each answer's tokens weigh in the batch's loss, from the number of each answer's tokens
/// that count. Answers without any weigh nothing.
std::vector<double> token_weights(std::span<const std::size_t> tokens_of_answers, LossMean mean);

}  // namespace lathe::rl
