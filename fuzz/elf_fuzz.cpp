#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backend/cpu/elf_image.h"
#include "backend/cpu/object_symbols.h"
#include "backend/cpu/runner/loaded_image.h"

/// An object from the compile jail must be refused with a reason, or be loaded and restored without
/// accesses outside its file and its memory. Its code is never run.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)lathe::symbols_of(bytes);
  const auto image = lathe::parse_elf(bytes);
  if (!image.ok()) {
    if (image.error().reason.empty()) std::abort();
    return 0;
  }
  for (const auto& segment : image->segments) {
    if (segment.offset > size || segment.file_bytes > size - segment.offset) std::abort();
    if (segment.address > image->memory_bytes) std::abort();
    if (segment.memory_bytes > image->memory_bytes - segment.address) std::abort();
  }
  for (const auto& [name, address] : image->functions)
    if (address >= image->memory_bytes) std::abort();
  const auto loaded = lathe::LoadedImage::load(bytes);
  if (loaded.ok()) loaded->restore_writable();
  return 0;
}
