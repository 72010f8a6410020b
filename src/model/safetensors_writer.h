#pragma once

#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "model/safetensors.h"

namespace lathe {

/// Writes a .safetensors file beside `path`, syncs it and renames it over `path`. Formats must be
/// F32, F16 or BF16, and shapes must fit their bytes. `metadata` becomes the header's __metadata__.
Status write_safetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                         const std::map<std::string, std::string>& metadata = {});

}  // namespace lathe
