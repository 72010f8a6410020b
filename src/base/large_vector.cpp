#include "base/large_vector.h"

#include <sys/mman.h>

#include <cstdint>

namespace lathe {
namespace {

constexpr std::uintptr_t kPageBytes = 4096;
constexpr std::size_t kLargeBytes = 8 << 20;

}  // namespace

void prefer_huge_pages(void* begin, std::size_t bytes) {
  if (bytes < kLargeBytes) return;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + kPageBytes - 1) / kPageBytes * kPageBytes;
  const std::uintptr_t end = (address + bytes) / kPageBytes * kPageBytes;
  (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

}  // namespace lathe
