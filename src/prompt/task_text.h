#pragma once

#include "backend/backend.h"
#include "candidate/template.h"

namespace lathe {

/// What a prompt says of a task and a device: the holes of prompts/task.txt. `skeleton` is a plan
/// and the signature of its kernel, in the device's dialect.
Holes task_holes(const TaskSpec& task, const DeviceInfo& device, const DevicePeaks& peaks);

}  // namespace lathe
