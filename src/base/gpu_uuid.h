#pragma once

#include <string>
#include <string_view>

namespace lathe {

/// The driver's 16 bytes in NVIDIA's notation.
std::string gpu_uuid_text(std::string_view bytes);

}  // namespace lathe
