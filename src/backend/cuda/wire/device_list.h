#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lathe::cuda {

/// A GPU that the driver shows to a process.
struct ListedDevice {
  std::string name;
  std::string uuid;  ///< "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
  std::string pci;   ///< "0000:17:00.0"
};

/// In the driver's order; what a list process says, which an error ends.
struct DeviceList {
  std::string error;
  std::vector<ListedDevice> devices = {};
};
std::string encode(const DeviceList& list);
Result<DeviceList> decode_device_list(std::string_view bytes);

}  // namespace lathe::cuda
