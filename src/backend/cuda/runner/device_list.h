#pragma once

#include "backend/cuda/runner/driver_api.h"
#include "backend/cuda/wire/device_list.h"

namespace lathe::cuda {

/// A device by its number in this process. Makes no context.
Result<ListedDevice> describe_device(const Driver& driver, int device);

/// All that CUDA_VISIBLE_DEVICES leaves. Initialises the driver.
DeviceList list_devices();

}  // namespace lathe::cuda
