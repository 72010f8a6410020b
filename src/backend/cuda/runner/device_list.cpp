#include "backend/cuda/runner/device_list.h"

#include <fmt/format.h>

#include "base/gpu_uuid.h"

namespace lathe::cuda {
namespace {

constexpr std::size_t kUuidBytes = 16;

Result<std::vector<ListedDevice>> all_devices() {
  LATHE_TRY(const Driver* gpu, driver());
  LATHE_CHECK_OK(check(gpu->init(0), "cannot initialise the driver"));
  int count = 0;
  LATHE_CHECK_OK(check(gpu->device_count(&count), "cannot count GPUs"));
  std::vector<ListedDevice> devices;
  for (int i = 0; i < count; ++i) {
    int device = 0;
    LATHE_CHECK_OK(check(gpu->device_get(&device, i), "cannot find a GPU"));
    LATHE_TRY(ListedDevice listed, describe_device(*gpu, device));
    devices.push_back(std::move(listed));
  }
  return devices;
}

}  // namespace

Result<ListedDevice> describe_device(const Driver& driver, int device) {
  char name[256] = {}, uuid[kUuidBytes] = {};
  LATHE_CHECK_OK(check(driver.device_name(name, sizeof name - 1, device), "cannot name the GPU"));
  LATHE_CHECK_OK(check(driver.device_uuid(uuid, device), "cannot ask the GPU's UUID"));
  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    driver.device_attribute(&value, which, device);
    return value;
  };
  return ListedDevice{
      name, gpu_uuid_text({uuid, sizeof uuid}),
      fmt::format("{:04x}:{:02x}:{:02x}.0", attribute(DeviceAttribute::kPciDomain),
                  attribute(DeviceAttribute::kPciBus), attribute(DeviceAttribute::kPciDevice))};
}

Result<DeviceFacts> facts_of_first_device(const Driver& driver) {
  DeviceFacts facts;
  int device = 0;
  LATHE_CHECK_OK(check(driver.device_get(&device, 0), "cannot find a GPU"));
  LATHE_TRY(ListedDevice listed, describe_device(driver, device));
  std::size_t memory = 0;
  LATHE_CHECK_OK(check(driver.device_memory(&memory, device), "cannot size the GPU's memory"));
  LATHE_CHECK_OK(check(driver.version(&facts.driver_version), "cannot ask the driver's version"));
  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    driver.device_attribute(&value, which, device);
    return value;
  };
  facts.name = std::move(listed.name);
  facts.uuid = std::move(listed.uuid);
  facts.pci = std::move(listed.pci);
  facts.memory_bytes = static_cast<std::int64_t>(memory);
  facts.compute_major = attribute(DeviceAttribute::kComputeMajor);
  facts.compute_minor = attribute(DeviceAttribute::kComputeMinor);
  facts.multiprocessors = attribute(DeviceAttribute::kMultiprocessors);
  facts.shared_optin_bytes = attribute(DeviceAttribute::kSharedOptIn);
  facts.l2_bytes = attribute(DeviceAttribute::kL2Bytes);
  return facts;
}

double tensor_operations(const DeviceFacts& facts) {
  switch (facts.compute_major) {
    case 8:
      return facts.compute_minor == 0 ? 2048 : 1024;
    case 9:
      return 4096;
    default:
      return facts.compute_major < 8 ? 1024 : 8192;
  }
}

DeviceList list_devices() {
  auto devices = all_devices();
  if (!devices.ok()) return {devices.error().to_string()};
  return {"", *std::move(devices)};
}

}  // namespace lathe::cuda
