#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

namespace lathe {

/// What may be spent on a model. 0: no limit.
struct ModelBudget {
  std::int64_t tokens = 0;  ///< of prompts and answers together
  double usd = 0;
  double usd_per_prompt_token = 0;
  double usd_per_answer_token = 0;

  double price(double prompt_tokens, double answer_tokens) const {
    return prompt_tokens * usd_per_prompt_token + answer_tokens * usd_per_answer_token;
  }
};

/// Keeps a budget: an answer is granted only as many tokens as are left for it, those that are
/// being written counted in full, so that the sum stays within the budget if the server keeps its
/// own limit. Thread-safe.
class Meter {
 public:
  static constexpr std::int64_t kLeastAnswer =
      128;  ///< tokens without which an answer is not worth asking for

  struct Grant {
    int samples = 0;
    std::int64_t answer_tokens = 0;  ///< of each sample
    std::int64_t prompt_tokens = 0;  ///< as estimated
  };

  /// `spent_*`: by earlier sittings of the run.
  Meter(const ModelBudget& budget, double spent_tokens, double spent_usd)
      : budget_(budget), tokens_(spent_tokens), usd_(spent_usd) {}

  /// At most `samples` answers of at most `answer_tokens`; nullopt: the budget is spent.
  std::optional<Grant> reserve(std::int64_t prompt_tokens, int samples, std::int64_t answer_tokens);
  /// What became of a grant. Nothing spent: zeros.
  void settle(const Grant& grant, double prompt_tokens, double answer_tokens);

 private:
  const ModelBudget budget_;
  std::mutex mutex_;
  double tokens_, usd_;  ///< spent and granted
};

}  // namespace lathe
