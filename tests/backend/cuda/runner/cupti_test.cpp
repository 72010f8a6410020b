#include <gmock/gmock.h>

#include "backend/cuda/runner/counters.h"
#include "backend/cuda/runner/cupti_api.h"
#include "backend/cuda/runner/range_counters.h"
#ifdef LATHE_HAVE_CUPTI_HEADERS
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#endif

namespace lathe::cuda {
namespace {

#ifdef LATHE_HAVE_CUPTI_HEADERS
#define EXPECT_SAME_PLACE(OURS, FIELD, THEIRS, THEIR_FIELD) \
  EXPECT_EQ(offsetof(OURS, FIELD), offsetof(THEIRS, THEIR_FIELD))

TEST(CuptiLayout, SizesAreTheToolkits) {
  EXPECT_EQ(CuptiInitialize{}.size, CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiChipName{}.size, CUpti_Device_GetChipName_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiAvailability{}.size, CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiHostInitialize{}.size, CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiHostOnly{}.size, CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiMetricProperties{}.size, CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiAddMetrics{}.size, CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiConfigSize{}.size, CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiConfigImage{}.size, CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiEvaluate{}.size, CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiEnable{}.size, CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiRangeOnly{}.size, CUpti_RangeProfiler_Start_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiRangeOnly{}.size, CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiRangeOnly{}.size, CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiDataSize{}.size, CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiDataInitialize{}.size, CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiSetConfig{}.size, CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiPush{}.size, CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiStop{}.size, CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE);
  EXPECT_EQ(CuptiDecode{}.size, CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE);
}

TEST(CuptiLayout, FieldsAreWhereTheToolkitHasThem) {
  EXPECT_SAME_PLACE(CuptiHostInitialize, chip, CUpti_Profiler_Host_Initialize_Params, pChipName);
  EXPECT_SAME_PLACE(CuptiEvaluate, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues);
  EXPECT_SAME_PLACE(CuptiDataSize, tree_nodes, CUpti_RangeProfiler_GetCounterDataSize_Params,
                    maxNumRangeTreeNodes);
  EXPECT_SAME_PLACE(CuptiDataSize, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params, counterDataSize);
  EXPECT_SAME_PLACE(CuptiSetConfig, ranges, CUpti_RangeProfiler_SetConfig_Params, range);
  EXPECT_SAME_PLACE(CuptiSetConfig, ranges_a_pass, CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass);
  EXPECT_SAME_PLACE(CuptiSetConfig, least_level, CUpti_RangeProfiler_SetConfig_Params, minNestingLevel);
  EXPECT_SAME_PLACE(CuptiSetConfig, level, CUpti_RangeProfiler_SetConfig_Params, targetNestingLevel);
  EXPECT_SAME_PLACE(CuptiStop, all_passes, CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted);
  EXPECT_EQ(CuptiSetConfig{}.ranges, CUPTI_UserRange);
  EXPECT_EQ(CuptiSetConfig{}.replay, CUPTI_UserReplay);
}
#endif

TEST(CuptiErrors, NameTheRemedyWhereCountersAreNotPermitted) {
  const Status refused = check_cupti(35, "cannot enable counters");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().hint, testing::HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"));
  EXPECT_TRUE(check_cupti(0, "nothing").ok());
}

class CuptiTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!cupti_.ok()) GTEST_SKIP() << "skipped: " << cupti_.error().to_string();
  }
  const Result<const Cupti*> cupti_ = cupti();
};

TEST_F(CuptiTest, HopperHasEveryMetricThatLatheUses) {
  const auto metrics = hardware_metrics();
  const auto config = MetricConfig::make(**cupti_, "GH100", metrics, {});
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  EXPECT_THAT(config->metrics(), testing::ElementsAreArray(metrics));
  EXPECT_FALSE(config->image().empty());
}

TEST_F(CuptiTest, OtherChipsLeaveOutMetricsThatTheyLack) {
  for (const char* chip : {"GA100", "AD102", "GB100"}) {
    SCOPED_TRACE(chip);
    const auto config = MetricConfig::make(**cupti_, chip, hardware_metrics(), {});
    ASSERT_TRUE(config.ok()) << config.error().to_string();
    EXPECT_THAT(config->metrics(), testing::Contains("dram__bytes_read.sum"));
    EXPECT_GT(config->metrics().size(), hardware_metrics().size() * 3 / 4);
  }
  EXPECT_FALSE(MetricConfig::make(**cupti_, "Z80", hardware_metrics(), {}).ok());
}

}  // namespace
}  // namespace lathe::cuda
