#include "bench/gym/fault_storm.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr std::int64_t kEvaluations = 5'000;
#else
constexpr std::int64_t kEvaluations = 50'000;
#endif

/// bench/gym/storm_bench does a million of them.
TEST(FaultStormTest, EveryRequestIsAnsweredOnceAndAsItsScriptAdmits) {
  const auto report = run_storm({.evaluations = kEvaluations, .seed = 7, .lanes = 2});
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_EQ(report->answered, report->submitted);
  EXPECT_EQ(report->fault_count, 0);
  for (const std::string& fault : report->faults) ADD_FAILURE() << fault;
  EXPECT_EQ(report->answers.size(), 15u) << "not every kind of candidate was drawn";
}

}  // namespace
}  // namespace lathe
