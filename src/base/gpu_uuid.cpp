#include "base/gpu_uuid.h"

#include <fmt/format.h>

namespace lathe {

std::string gpu_uuid_text(std::string_view bytes) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < bytes.size(); ++i)
    text += fmt::format("{}{:02x}", i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "",
                        static_cast<unsigned char>(bytes[i]));
  return text;
}

}  // namespace lathe
