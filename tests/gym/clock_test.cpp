#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "bench/gym/timing_probe.h"
#include "gym/gym.h"

namespace lathe {
namespace {

// How many screens of equal work and of a tenth more: a minute on two quiet cores, four beside
// other work.
constexpr int kEqual = 160, kSlower = 60;
// An interval promises that a screen calls equal work faster in 2.5% of cases, and slower in as
// many. Twice that is honest, for neighbours of a virtual machine keep no promises.
constexpr double kHonestCalls = 0.05, kHonestMisses = 0.05;
// From so many on it is no luck.
constexpr int kFalseCalls = 27, kMisses = 15;
constexpr double kAccuracy = 0.01;  // of the median ratio
// A single screen of an honest clock lies beyond that accuracy less often, on either side.
constexpr double kHonestBeyond = 0.3;
// What a tenth more work takes, part of which finds its inputs in the cache.
constexpr double kSlowest = 0.895, kFastest = 0.935, kHonestOutside = 0.2;

/// The probability of `least` or more successes in `count` independent tries.
double binomial_tail(int count, int least, double chance) {
  double sum = 0;
  for (int k = least; k <= count; ++k)
    sum += std::exp(std::lgamma(count + 1.0) - std::lgamma(k + 1.0) - std::lgamma(count - k + 1.0) +
                    k * std::log(chance) + (count - k) * std::log1p(-chance));
  return sum;
}

double share_beyond(const std::vector<double>& values, double limit) {
  return static_cast<double>(std::ranges::count_if(values, [&](double value) { return value > limit; })) /
         static_cast<double>(values.size());
}

/// The clock on this machine's processor, at a size that fails by statistics and not by luck.
///
/// An honest clock fails one of these tests with a probability below 1e-6 in all
/// (ItsSizeFailsByStatistics adds it up). With 99% or more they find a clock that calls equal work
/// faster, or slower, in 25% of screens; one whose ratio of equal work is off by so much that 59%
/// of screens lie beyond 1%; and one that misses a tenth more work in 39% of screens.
class ClockTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto backend = make_cpu_backend({});
    ASSERT_TRUE(backend.ok()) << backend.error().to_string();
    backend_ = std::move(*backend).release();
  }
  static void TearDownTestSuite() { delete backend_; }

  /// The speedups of copies of the naive build over it.
  static std::vector<Interval> screens(int extra_percent, int count) {
    const auto task = std::make_shared<const TaskSpec>(*timing_task(Dialect::kCpu));
    const auto gym = Gym::start(*backend_, {}, null_sink());
    const auto evaluator = gym->connect();
    std::vector<Interval> ratios;
    for (int i = 0; i < count; ++i) {
      const auto text = timing_probe(*task, Dialect::kCpu, extra_percent, i);
      if (!text.ok()) return ADD_FAILURE() << text.error().to_string(), ratios;
      const auto verdict = evaluate_alone(*evaluator, {.task = task, .text = *text});
      if (!verdict.ok()) return ADD_FAILURE() << verdict.error().to_string(), ratios;
      const auto ratio = verdict->speedup("naive");
      if (!verdict->passed() || !ratio)
        return ADD_FAILURE() << verdict->reason << " " << verdict->detail, ratios;
      ratios.push_back(*ratio);
    }
    return ratios;
  }

  static std::vector<double> middles(const std::vector<Interval>& ratios) {
    std::vector<double> all;
    for (const Interval& ratio : ratios) all.push_back(ratio.mid);
    return all;
  }

  static Backend* backend_;
};

Backend* ClockTest::backend_ = nullptr;

TEST(ClockSizeTest, ItsSizeFailsByStatistics) {
  const double equal = 2 * binomial_tail(kEqual, kFalseCalls, kHonestCalls) +
                       2 * binomial_tail(kEqual, kEqual / 2, kHonestBeyond);
  const double slower = binomial_tail(kSlower, kMisses, kHonestMisses) +
                        2 * binomial_tail(kSlower, kSlower / 2, kHonestOutside);
  EXPECT_LT(equal + slower, 1e-6);
  EXPECT_GE(binomial_tail(kEqual, kFalseCalls, 0.245), 0.99);
  EXPECT_GE(binomial_tail(kEqual, kEqual / 2, 0.59), 0.99);
  EXPECT_GE(binomial_tail(kSlower, kMisses, 0.39), 0.99);
}

TEST_F(ClockTest, AKernelAgainstItselfIsNeitherFasterNorSlower) {
  const std::vector<Interval> ratios = screens(0, kEqual);
  ASSERT_EQ(ratios.size(), static_cast<std::size_t>(kEqual));
  const auto faster = std::ranges::count_if(ratios, [](const Interval& ratio) { return ratio.low > 1; });
  const auto slower = std::ranges::count_if(ratios, [](const Interval& ratio) { return ratio.high < 1; });
  EXPECT_LT(faster, kFalseCalls);
  EXPECT_LT(slower, kFalseCalls);
  const std::vector<double> all = middles(ratios);
  EXPECT_LT(share_beyond(all, 1 + kAccuracy), 0.5);
  EXPECT_GT(share_beyond(all, 1 - kAccuracy), 0.5);
  RecordProperty("faster", static_cast<int>(faster));
  RecordProperty("slower", static_cast<int>(slower));
}

TEST_F(ClockTest, ATenthMoreWorkIsSeenAndMeasured) {
  const std::vector<Interval> ratios = screens(10, kSlower);
  ASSERT_EQ(ratios.size(), static_cast<std::size_t>(kSlower));
  const auto missed = std::ranges::count_if(ratios, [](const Interval& ratio) { return ratio.high >= 1; });
  EXPECT_LT(missed, kMisses);
  const std::vector<double> all = middles(ratios);
  EXPECT_LT(share_beyond(all, kFastest), 0.5);
  EXPECT_GT(share_beyond(all, kSlowest), 0.5);
  RecordProperty("missed", static_cast<int>(missed));
}

}  // namespace
}  // namespace lathe
