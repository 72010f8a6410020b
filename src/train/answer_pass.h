#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/tokenizer.h"
#include "train/learner.h"

namespace lathe::train {

/// Answers to prompts that are computed in one pass, one after the other.
struct AnswerPass {
  struct Text {
    std::vector<TokenId> prompt, answer;
  };
  /// What a grammar leaves possible.
  struct Allowed {
    std::vector<std::int64_t> tokens;               ///< that some place allows
    std::vector<std::vector<std::int64_t>> places;  ///< of each token of an answer, which of `tokens`
    std::vector<std::int64_t> taken;                ///< which of `tokens` it is
  };
  std::vector<Text> texts;
  std::optional<Allowed> allowed = {};  ///< nullopt: the whole vocabulary, everywhere
};

/// Of each token of a pass's answers: log p, and the entropy of the distribution that p is of.
/// Among the whole vocabulary it is estimated as -log p.
struct PassFindings {
  std::vector<double> log_probabilities, entropies;
};
PassFindings find_out(const Scorer& scorer, const AnswerPass& pass);

/// A loss's derivatives by what find_out() tells of each token; without `by_entropy` there are none
/// by entropies, which have no gradient where nothing is forbidden.
struct PassSlopes {
  std::vector<float> by_log_probability, by_entropy = {};
};
void add_gradient(Learner& learner, const AnswerPass& pass, const PassSlopes& slopes);

}  // namespace lathe::train
