#include "policy/meter.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Meter, WithoutABudgetGrantsWhatIsAskedFor) {
  Meter meter({}, 1e9, 1e9);
  const auto grant = meter.reserve(100, 8, 4096);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->samples, 8);
  EXPECT_EQ(grant->answer_tokens, 4096);
}

TEST(Meter, GrantsFewerSamplesThenShorterOnesThenNone) {
  Meter meter({.tokens = 10'000}, 1000, 0);
  const auto few = meter.reserve(1000, 8, 2000);
  ASSERT_TRUE(few.has_value());
  EXPECT_EQ(few->samples, 4);
  EXPECT_EQ(few->answer_tokens, 2000);
  EXPECT_FALSE(meter.reserve(1000, 1, 2000).has_value()) << "all is granted";
  meter.settle(*few, 1000, 4500);
  const auto shorter = meter.reserve(1000, 4, 4000);
  ASSERT_TRUE(shorter.has_value());
  EXPECT_EQ(shorter->samples, 1);
  EXPECT_EQ(shorter->answer_tokens, 2500);
  meter.settle(*shorter, 1000, 2400);
  EXPECT_FALSE(meter.reserve(1000, 1, 4000).has_value());
}

TEST(Meter, ARequestThatFailedIsGivenBack) {
  Meter meter({.tokens = 3000}, 0, 0);
  const auto grant = meter.reserve(1000, 1, 2000);
  ASSERT_TRUE(grant.has_value());
  meter.settle(*grant, 0, 0);
  EXPECT_TRUE(meter.reserve(1000, 1, 2000).has_value());
}

TEST(Meter, MoneyBuysTokensAtTheirPrices) {
  const ModelBudget budget{.usd = 0.01, .usd_per_prompt_token = 1e-6, .usd_per_answer_token = 2e-6};
  EXPECT_DOUBLE_EQ(budget.price(1000, 500), 0.002);
  Meter meter(budget, 0, 0.005);
  const auto grant = meter.reserve(1000, 1, 4096);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->answer_tokens, 2000);
  EXPECT_FALSE(meter.reserve(1000, 1, 4096).has_value());
}

}  // namespace
}  // namespace lathe
