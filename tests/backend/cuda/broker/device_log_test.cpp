#include "backend/cuda/broker/device_log.h"

#include <gmock/gmock.h>

namespace lathe::cuda {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Key;
using testing::Not;

TEST(DeviceLog, SummarisesMediansAndTheShareOfThrottledReadings) {
  const auto state = summarise({{.clock_mhz = 1980, .power_w = 300},
                                {.clock_mhz = 1980, .power_w = 500, .throttle = 0x1},
                                {.clock_mhz = 1700, .power_w = 700, .throttle = 0x4},
                                {.clock_mhz = 1980, .power_w = 600}});
  EXPECT_EQ(reasons_of(0x25), (std::vector<std::string>{"power_cap", "thermal"}));
  EXPECT_TRUE(reasons_of(0x1).empty()) << "an idle GPU";
  EXPECT_DOUBLE_EQ(state.at("clock_mhz"), 1980);
  EXPECT_DOUBLE_EQ(state.at("clock_mhz_low"), 1700);
  EXPECT_DOUBLE_EQ(state.at("power_w"), 550);
  EXPECT_DOUBLE_EQ(state.at("throttled.power_cap"), 0.25);
  EXPECT_THAT(state, Not(Contains(Key("throttled.thermal"))));
  EXPECT_THAT(state, Not(Contains(Key("celsius")))) << "0 is: not known";
}

TEST(DeviceLog, IsEmptyWithoutReadings) { EXPECT_THAT(summarise({}), IsEmpty()); }

TEST(Nvml, AMissingGpuIsAnErrorWithAHint) {
  const auto nvml = Nvml::open("ffff:ff:1f.0");
  ASSERT_FALSE(nvml.ok());
  EXPECT_EQ(nvml.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(nvml.error().hint.empty());
}

}  // namespace
}  // namespace lathe::cuda
