#include "backend/cuda/wire/device_list.h"

#include <gtest/gtest.h>

namespace lathe::cuda {
namespace {

TEST(DeviceListTest, AListArrivesAsItWasSent) {
  const auto list = decode_device_list(encode(DeviceList{"", {{"one", "GPU-1", "0000:17:00.0"}, {"two"}}}));
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->devices.size(), 2u);
  EXPECT_EQ(list->devices[0].uuid, "GPU-1");
  EXPECT_EQ(list->devices[0].pci, "0000:17:00.0");
  EXPECT_EQ(list->devices[1].name, "two");
}

TEST(DeviceListTest, DamagedListsAreRefused) {
  const std::string whole = encode(DeviceList{"why", {{"one", "GPU-1", "0000:17:00.0"}}});
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(decode_device_list(whole.substr(0, bytes)).ok());
  EXPECT_FALSE(decode_device_list(whole + "x").ok());
}

}  // namespace
}  // namespace lathe::cuda
