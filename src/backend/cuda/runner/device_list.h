#pragma once

#include "backend/cuda/runner/driver_api.h"
#include "backend/cuda/wire/device_list.h"
#include "backend/cuda/wire/protocol.h"

namespace lathe::cuda {

/// A device by its number in this process. Makes no context.
Result<ListedDevice> describe_device(const Driver& driver, int device);

/// Of the one that this process computes on.
Result<DeviceFacts> facts_of_first_device(const Driver& driver);

/// Dense tensor-core operations on 16-bit operands per clock and multiprocessor (CUDA programming
/// guide).
double tensor_operations(const DeviceFacts& facts);

/// All that CUDA_VISIBLE_DEVICES leaves. Initialises the driver.
DeviceList list_devices();

}  // namespace lathe::cuda
