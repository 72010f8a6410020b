#include "base/large_vector.h"

#include <sys/mman.h>

#include <cstdint>

#include "base/parallel.h"

namespace lathe {
namespace {

constexpr std::uintptr_t kPageBytes = 4096;
constexpr std::size_t kWorthBytes = 128 << 10;  // what malloc takes from the system for itself
constexpr std::size_t kLargeBytes = 8 << 20, kHugeBytes = 2 << 20;

}  // namespace

void prefault(void* begin, std::size_t bytes) {
  if (bytes < kWorthBytes) return;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + kPageBytes - 1) / kPageBytes * kPageBytes;
  const std::uintptr_t end = (address + bytes) / kPageBytes * kPageBytes;
  if (bytes < kLargeBytes) {
    (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_POPULATE_WRITE);
    return;
  }
  (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
  const auto count = static_cast<std::int64_t>((end - first) / kHugeBytes);
  for_each_job(count, static_cast<double>(bytes), [&](std::int64_t i) {
    const std::uintptr_t piece = first + static_cast<std::uintptr_t>(i) * kHugeBytes;
    (void)::madvise(reinterpret_cast<void*>(piece), kHugeBytes, MADV_POPULATE_WRITE);
  });
}

}  // namespace lathe
