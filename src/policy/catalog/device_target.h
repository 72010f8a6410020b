#pragma once

#include "backend/backend.h"
#include "policy/catalog/schedule/target.h"

namespace lathe::catalog {

/// For what the catalogue writes on a device; facts that it does not tell are taken as usual.
Target target_of(const DeviceInfo& device);

}  // namespace lathe::catalog
