#pragma once

#include <nlohmann/json_fwd.hpp>

#include "backend/backend.h"

namespace lathe {

/// The device that a task's kernels were timed on, as far as prompts and schedules depend on it:
/// with it, examples can be written again on a machine that has no such device.
struct DeviceRecord {
  DeviceInfo device;
  DevicePeaks peaks;
};

nlohmann::json to_json(const DeviceRecord& record);
/// Errors name the field.
Result<DeviceRecord> device_record_from_json(const nlohmann::json& json);

}  // namespace lathe
