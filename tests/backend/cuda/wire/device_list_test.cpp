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

TEST(DeviceListTest, UuidsAreWrittenAsNvidiaDoes) {
  const std::string bytes = "\x89\x32\xf9\x37\xd7\x2c\x41\x06\xc1\x2f\x20\xbd\x9f\xae\xd9\xf6";
  EXPECT_EQ(uuid_text(bytes), "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6");
}

}  // namespace
}  // namespace lathe::cuda
