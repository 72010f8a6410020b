#include "rl/surrogate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lathe::rl {

double k3(double log_prob, double reference) {
  const double ahead = reference - log_prob;
  return std::expm1(ahead) - ahead;
}

TokenLoss surrogate(double log_prob, double old_log_prob, double advantage, const SurrogateOptions& options,
                    std::optional<double> reference) {
  const double ratio = std::exp(log_prob - old_log_prob);
  const double clipped = std::clamp(ratio, 1 - options.clip_low, 1 + options.clip_high);
  TokenLoss token{.loss = -ratio * advantage, .gradient = -ratio * advantage};
  if (-clipped * advantage > token.loss) token = {.loss = -clipped * advantage, .gradient = 0};
  if (advantage < 0 && options.dual_clip > 0 && token.loss > -options.dual_clip * advantage)
    token = {.loss = -options.dual_clip * advantage, .gradient = 0};
  if (options.kl > 0 && reference) {
    token.loss += options.kl * k3(log_prob, *reference);
    token.gradient -= options.kl * std::expm1(*reference - log_prob);
  }
  return token;
}

std::vector<double> token_weights(std::span<const std::size_t> tokens_of_answers, LossMean mean) {
  const std::size_t tokens =
      std::accumulate(tokens_of_answers.begin(), tokens_of_answers.end(), std::size_t{0});
  const auto answers = tokens_of_answers.size() -
                       static_cast<std::size_t>(std::ranges::count(tokens_of_answers, std::size_t{0}));
  std::vector<double> weights;
  for (const std::size_t own : tokens_of_answers) {
    if (own == 0)
      weights.push_back(0);
    else if (mean == LossMean::kTokens)
      weights.push_back(1 / static_cast<double>(tokens));
    else
      weights.push_back(1 / (static_cast<double>(answers) * static_cast<double>(own)));
  }
  return weights;
}

}  // namespace lathe::rl
