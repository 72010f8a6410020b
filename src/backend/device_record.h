#pragma once

#include <nlohmann/json_fwd.hpp>

#include "backend/backend.h"

namespace lathe {

/// A device as far as prompts and schedules depend on it: with it they can be written on a machine
/// that has no such device.
struct DeviceRecord {
  DeviceInfo device;
  DevicePeaks peaks;
};

nlohmann::json to_json(const DeviceRecord& record);
/// Jail and lanes may be missing, as in older records. Errors: kInvalid, which names the field.
Result<DeviceRecord> device_record_from_json(const nlohmann::json& json);

}  // namespace lathe
