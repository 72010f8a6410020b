#include "policy/meter.h"

#include <algorithm>
#include <limits>

namespace lathe {

std::optional<Meter::Grant> Meter::reserve(std::int64_t prompt_tokens, int samples,
                                           std::int64_t answer_tokens) {
  std::lock_guard lock(mutex_);
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  const auto prompt = static_cast<double>(prompt_tokens);
  double left = budget_.tokens > 0 ? static_cast<double>(budget_.tokens) - tokens_ - prompt : kUnlimited;
  if (budget_.usd > 0) {
    const double usd = budget_.usd - usd_ - budget_.price(prompt, 0);
    left = std::min(left, usd <= 0                           ? 0
                          : budget_.usd_per_answer_token > 0 ? usd / budget_.usd_per_answer_token
                                                             : kUnlimited);
  }
  const auto wanted = static_cast<double>(answer_tokens);
  const double least = std::min(wanted, static_cast<double>(kLeastAnswer));
  for (int count = samples; count > 0; --count) {
    const double each = std::min(wanted, left / count);
    if (each < least || (count > 1 && each < wanted)) continue;
    const Grant grant{count, static_cast<std::int64_t>(each), prompt_tokens};
    tokens_ += prompt + count * each;
    usd_ += budget_.price(prompt, count * each);
    return grant;
  }
  return std::nullopt;
}

void Meter::settle(const Grant& grant, double prompt_tokens, double answer_tokens) {
  std::lock_guard lock(mutex_);
  const auto prompt = static_cast<double>(grant.prompt_tokens);
  const double answers = static_cast<double>(grant.answer_tokens) * grant.samples;
  tokens_ += prompt_tokens + answer_tokens - prompt - answers;
  usd_ += budget_.price(prompt_tokens, answer_tokens) - budget_.price(prompt, answers);
}

}  // namespace lathe
