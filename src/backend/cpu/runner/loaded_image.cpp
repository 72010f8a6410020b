#include "backend/cpu/runner/loaded_image.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/imports.h"
#include "backend/cpu/runner/fault_report.h"

namespace lathe {
namespace {

/// 0 for a function that this machine's C library lacks.
std::uint64_t address_of(const std::string& import) {
  if (const auto end = ending_of(import)) return address_of_ending(*end);
  return reinterpret_cast<std::uint64_t>(::dlsym(RTLD_DEFAULT, import.c_str()));
}

int protection(const ElfImage::Segment& segment) {
  return (segment.readable ? PROT_READ : 0) | (segment.writable ? PROT_WRITE : 0) |
         (segment.executable ? PROT_EXEC : 0);
}

/// Memory that begins at a multiple of `alignment`, as variables with an alignas() need.
Result<Mapping> map_aligned(std::size_t size, std::size_t alignment) {
  const std::size_t all = size + (alignment > kPageBytes ? alignment : 0);
  void* const at = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return errno_error("cannot map the kernel");
  const auto low = reinterpret_cast<std::uintptr_t>(at);
  const std::uintptr_t begin = all == size ? low : (low + alignment - 1) / alignment * alignment;
  if (begin > low) ::munmap(at, begin - low);
  if (low + all > begin + size) ::munmap(reinterpret_cast<void*>(begin + size), low + all - begin - size);
  return Mapping(reinterpret_cast<std::byte*>(begin), size);
}

}  // namespace

Result<LoadedImage> LoadedImage::load(std::string_view bytes) {
  LoadedImage loaded;
  LATHE_TRY(loaded.image_, parse_elf(bytes));
  LATHE_TRY(loaded.memory_, map_aligned(round_to_pages(loaded.image_.memory_bytes), loaded.image_.alignment));
  std::byte* const at = loaded.memory_.data();
  for (const auto& segment : loaded.image_.segments)
    std::memcpy(at + segment.address, bytes.data() + segment.offset, segment.file_bytes);
  for (const auto& relocation : loaded.image_.relocations) {
    std::uint64_t value = reinterpret_cast<std::uint64_t>(at) + static_cast<std::uint64_t>(relocation.addend);
    if (!relocation.symbol.empty()) {
      const std::uint64_t function = address_of(relocation.symbol);
      if (function == 0)
        return refused("unknown_function", "this machine's C library has no '" + relocation.symbol + "'", {});
      value = function + static_cast<std::uint64_t>(relocation.addend);
    }
    std::memcpy(at + relocation.address, &value, sizeof value);
  }
  const std::uint64_t relro_begin = loaded.image_.relro_address / kPageBytes * kPageBytes;
  const std::uint64_t relro_end =
      (loaded.image_.relro_address + loaded.image_.relro_bytes) / kPageBytes * kPageBytes;
  for (const auto& segment : loaded.image_.segments) {
    const std::uint64_t begin = segment.address / kPageBytes * kPageBytes;
    const std::uint64_t end = round_to_pages(segment.address + segment.memory_bytes);
    if (::mprotect(at + begin, end - begin, protection(segment)) != 0)
      return errno_error("cannot protect the kernel");
    if (!segment.writable) continue;
    const std::uint64_t state_begin =
        std::max(begin, relro_end > begin && relro_begin <= begin ? relro_end : begin);
    if (state_begin < end) loaded.pristine_.push_back({at + state_begin, {at + state_begin, at + end}});
  }
  if (relro_end > relro_begin && ::mprotect(at + relro_begin, relro_end - relro_begin, PROT_READ) != 0)
    return errno_error("cannot protect the kernel");
  return loaded;
}

void* LoadedImage::function(std::string_view name) const {
  const auto found = image_.functions.find(name);
  return found == image_.functions.end() ? nullptr : memory_.data() + found->second;
}

void LoadedImage::restore_writable() const {
  for (const Pristine& pristine : pristine_)
    std::memcpy(pristine.at, pristine.bytes.data(), pristine.bytes.size());
}

}  // namespace lathe
