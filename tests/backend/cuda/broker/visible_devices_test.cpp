#include "backend/cuda/broker/visible_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string visible_to_helpers(int index, const char* visible) {
  const auto environment = environment_of(index, {.visible = visible});
  return environment.ok() ? environment->front() : environment.error().message;
}

Result<std::vector<ListedDevice>> two_gpus() {
  return std::vector<ListedDevice>{{"NVIDIA H200", "GPU-1", "0000:17:00.0"},
                                   {"NVIDIA H100", "GPU-2", "0000:65:00.0"}};
}

const Error kNoDevice{ErrorCode::kUnavailable, "CUDA_ERROR_NO_DEVICE"};

TEST(VisibleDevicesTest, WithoutTheVariableADeviceIsTheDriversOwnNumber) {
  EXPECT_EQ(visible_to_helpers(0, nullptr), "CUDA_VISIBLE_DEVICES=0");
  EXPECT_EQ(visible_to_helpers(3, nullptr), "CUDA_VISIBLE_DEVICES=3");
}

TEST(VisibleDevicesTest, NumbersCountAmongThoseThatTheUserSees) {
  EXPECT_EQ(visible_to_helpers(0, "2,0"), "CUDA_VISIBLE_DEVICES=2");
  EXPECT_EQ(visible_to_helpers(1, "2, 0"), "CUDA_VISIBLE_DEVICES=0");
}

TEST(VisibleDevicesTest, EntriesMayBeUuids) {
  EXPECT_EQ(visible_to_helpers(1, "GPU-8932f937,MIG-1234/1/0"), "CUDA_VISIBLE_DEVICES=MIG-1234/1/0");
}

TEST(VisibleDevicesTest, AnEmptyVariableHidesEveryGpu) {
  EXPECT_THAT(visible_to_helpers(0, ""), HasSubstr("CUDA_VISIBLE_DEVICES='' leaves no GPU"));
  EXPECT_THAT(visible_to_helpers(0, "-1"), HasSubstr("leaves no GPU"));
  EXPECT_THAT(visible_to_helpers(0, "none"), HasSubstr("leaves no GPU"));
}

TEST(VisibleDevicesTest, WhatIsNoDeviceEndsTheListAsItDoesForTheDriver) {
  EXPECT_THAT(visible_to_helpers(1, "0,-1,2"), HasSubstr("leaves one GPU, so there is no cuda:1"));
  EXPECT_THAT(visible_to_helpers(2, "0,1,,2"), HasSubstr("leaves 2 GPUs"));
}

TEST(VisibleDevicesTest, TheOrderOfNumbersIsTheUsers) {
  const auto environment = environment_of(1, {.order = "PCI_BUS_ID"});
  ASSERT_TRUE(environment.ok());
  EXPECT_THAT(*environment, ElementsAre("CUDA_VISIBLE_DEVICES=1", "CUDA_DEVICE_ORDER=PCI_BUS_ID"));
}

TEST(VisibleDevicesTest, AWrongNumberIsAnErrorThatListsTheDevices) {
  const Error error = explain_missing(kNoDevice, 5, two_gpus);
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.message,
            "there is no cuda:5; there are cuda:0 NVIDIA H200 (GPU-1), cuda:1 NVIDIA H100 (GPU-2)");
}

TEST(VisibleDevicesTest, AGpuThatIsThereAndFailsKeepsItsError) {
  EXPECT_EQ(explain_missing(kNoDevice, 1, two_gpus).message, kNoDevice.message);
}

TEST(VisibleDevicesTest, WithoutAListTheErrorStays) {
  const auto none = [] { return Result<std::vector<ListedDevice>>(kNoDevice); };
  EXPECT_EQ(explain_missing(kNoDevice, 5, none).message, kNoDevice.message);
}

}  // namespace
}  // namespace lathe::cuda
