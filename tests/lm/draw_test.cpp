#include "lm/cpu/draw.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/random.h"

namespace lathe::lm {
namespace {

std::vector<float> some_logits(std::size_t count, std::uint64_t seed) {
  Rng rng(Seed::from_number(seed));
  std::vector<float> logits(count);
  for (float& logit : logits) logit = static_cast<float>(3 * rng.normal());
  return logits;
}

/// By the textbook: sort, cut, normalise.
std::vector<double> distribution(const std::vector<float>& logits, const Sampling& sampling) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::greater(), [&](std::size_t i) { return logits[i]; });
  std::size_t kept = sampling.top_k > 0 ? static_cast<std::size_t>(sampling.top_k) : order.size();
  std::vector<double> mass(logits.size(), 0);
  const auto weigh = [&] {
    double total = 0;
    std::ranges::fill(mass, 0);
    for (std::size_t i = 0; i < kept; ++i)
      total += mass[order[i]] =
          std::exp(static_cast<double>(logits[order[i]] - logits[order[0]]) / sampling.temperature);
    for (double& one : mass) one /= total;
  };
  weigh();
  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i)
    if ((sum += mass[order[i]]) >= static_cast<double>(sampling.top_p)) kept = i + 1;
  weigh();
  return mass;
}

TEST(Draw, LogitsThatAreNotFiniteHaveNoToken) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  std::vector<float> scratch;
  for (const float wrong : {kInfinite, std::numeric_limits<float>::quiet_NaN()})
    for (const float temperature : {0.0F, 1.0F}) {
      std::vector<float> logits = some_logits(50, 1);
      logits[7] = wrong;
      EXPECT_EQ(draw(logits, {.sampling = {.temperature = temperature}}, scratch).token, kNoToken);
    }
  EXPECT_EQ(draw(std::vector<float>(50, -kInfinite), {}, scratch).token, kNoToken);
}

TEST(Draw, TokensComeAsOftenAsTheyAreProbable) {
  const auto logits = some_logits(50, 1);
  for (const Sampling& sampling :
       {Sampling{.temperature = 1}, Sampling{.temperature = 0.5F, .top_p = 0.9F},
        Sampling{.temperature = 2, .top_k = 7}, Sampling{.temperature = 1.5F, .top_p = 0.7F, .top_k = 20}}) {
    const auto expected = distribution(logits, sampling);
    constexpr int kDraws = 20000;
    std::vector<int> count(logits.size(), 0);
    std::vector<float> scratch;
    for (int i = 0; i < kDraws; ++i) {
      const Drawn drawn =
          draw(logits, {.sampling = sampling, .counter = static_cast<std::uint64_t>(i)}, scratch);
      const auto token = static_cast<std::size_t>(drawn.token);
      ++count[token];
      ASSERT_NEAR(drawn.log_prob, std::log(expected[token]), 1e-4) << token;
    }
    for (std::size_t i = 0; i < count.size(); ++i)
      EXPECT_NEAR(count[i], kDraws * expected[i], 5 * std::sqrt(kDraws * expected[i]) + 1e-9)
          << "token " << i;
  }
}

TEST(Draw, OfEquallyProbableTokensTheFirstIsTheGreedyOne) {
  std::vector<float> scratch;
  const std::vector<float> logits = {1, 5, 2, 5};
  EXPECT_EQ(draw(logits, {.sampling = {.temperature = 0}}, scratch).token, 1);
}

TEST(Draw, LargeVocabulariesAndWideRangesAreFine) {
  auto logits = some_logits(152'064, 2);
  logits[77] = 80;  // all others are 20 orders of magnitude less probable
  std::vector<float> scratch;
  for (std::uint64_t i = 0; i < 50; ++i)
    EXPECT_EQ(draw(logits, {.sampling = {.top_p = 0.5F}, .counter = i}, scratch).token, 77);
  std::set<TokenId> met;
  for (float& logit : logits) logit = 2.5F;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Drawn drawn = draw(logits, {.counter = i}, scratch);
    met.insert(drawn.token);
    EXPECT_NEAR(drawn.log_prob, -std::log(152'064.0), 1e-4);
    EXPECT_NEAR(drawn.model_log_prob, -std::log(152'064.0), 1e-4);
  }
  EXPECT_GT(met.size(), 45u);
}

}  // namespace
}  // namespace lathe::lm
