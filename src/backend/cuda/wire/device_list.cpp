#include "backend/cuda/wire/device_list.h"

#include "sandbox/wire.h"

namespace lathe::cuda {

std::string encode(const DeviceList& list) {
  WireWriter out;
  out.text(list.error).put(static_cast<std::uint32_t>(list.devices.size()));
  for (const ListedDevice& device : list.devices) out.text(device.name).text(device.uuid).text(device.pci);
  return out.take();
}

Result<DeviceList> decode_device_list(std::string_view bytes) {
  constexpr std::size_t kLeastDeviceBytes = 3 * sizeof(std::uint32_t);
  WireReader in(bytes);
  DeviceList list{in.text()};
  list.devices.resize(in.count(kLeastDeviceBytes));
  for (ListedDevice& device : list.devices) device = {in.text(), in.text(), in.text()};
  if (in.finished()) return list;
  return Error{ErrorCode::kCorrupt, "a damaged list of GPUs"};
}

}  // namespace lathe::cuda
