#include "report/training_chart.h"

#include <gmock/gmock.h>

namespace lathe {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kMetrics =
    "{\"step\":1,\"loss\":2.0,\"gradient_norm\":1.5}\n"
    "{\"step\":2,\"loss\":1.0,\"gradient_norm\":0.5}\n"
    "{\"step\":2,\"held_out_loss\":1.25}\n";

TEST(TrainingChart, DrawsEveryStepAndEveryHeldOutLoss) {
  const auto chart = training_chart(kMetrics, "a run");
  ASSERT_TRUE(chart.ok()) << chart.error().to_string();
  EXPECT_THAT(*chart, HasSubstr("<svg"));
  EXPECT_THAT(*chart, HasSubstr("step 2: 1.2500"));
  EXPECT_THAT(*chart, HasSubstr("M64.0"));
  EXPECT_THAT(*chart, HasSubstr("L840.0"));
}

TEST(TrainingChart, OfReinforcementLearningDrawsWhatItMaximises) {
  const auto chart = training_chart(
      "{\"step\":1,\"loss\":0.1,\"reward\":-0.5,\"log_speedup_low\":0,\"pass_rate\":0.5,\"mismatch\":0}\n"
      "{\"step\":2,\"loss\":-0.1,\"reward\":2.5,\"log_speedup_low\":0.7,\"pass_rate\":1,\"mismatch\":0}\n",
      "a run");
  ASSERT_TRUE(chart.ok());
  EXPECT_THAT(*chart, HasSubstr("mean reward"));
  EXPECT_THAT(*chart, HasSubstr("mismatch"));
  EXPECT_THAT(*training_chart(kMetrics, "a run"), Not(HasSubstr("reward")));
}

TEST(TrainingChart, CountsHacksOfAllReasonsAndLeavesOutWhatMetricsDoNotHave) {
  const auto chart = training_chart(
      "{\"step\":1,\"loss\":0.1,\"reward\":1,\"hacks\":{}}\n"
      "{\"step\":2,\"loss\":0.1,\"reward\":1,\"hacks\":{\"canary\":300,\"late_write\":400}}\n",
      "a run");
  ASSERT_TRUE(chart.ok());
  EXPECT_THAT(*chart, HasSubstr("attempts to deceive"));
  EXPECT_THAT(*chart, HasSubstr(">600<")) << "a tick of the axis, which ends at 735";
  EXPECT_THAT(*chart, Not(HasSubstr("judged")));
}

TEST(TrainingChart, EscapesItsTitle) {
  EXPECT_THAT(*training_chart(kMetrics, "<script>"), Not(HasSubstr("<script>")));
}

TEST(TrainingChart, LeavesOutALineThatWasCut) {
  EXPECT_EQ(*training_chart(std::string(kMetrics) + "{\"step\":3,\"lo", "t"), *training_chart(kMetrics, "t"));
  EXPECT_FALSE(training_chart("{\"step\":3,\"lo", "t").ok());
  EXPECT_FALSE(training_chart("", "t").ok());
}

}  // namespace
}  // namespace lathe
