#pragma once

#include <cstdint>

namespace lathe::cuda {

/// The argument of `touch`, passed by value. kScrubKernel declares the same layout.
struct TouchedPages {
  static constexpr unsigned kMost = 480;
  std::uint64_t addresses[kMost] = {};
  std::uint64_t count = 0;
};

/// Trusted kernels that a launcher runs before each block. `scrub(unsigned pattern, unsigned
/// bytes)` overwrites the shared memory and the registers that the previous block left behind; one
/// of its thread blocks with `bytes` of dynamic shared memory fills a multiprocessor. Each block of
/// `touch(TouchedPages)` reads a byte of each page, so that no multiprocessor's first use of a page
/// is charged to the block. Each thread of `scrub_local_N(pattern)` overwrites N bytes of its local
/// memory; two thread blocks fill a multiprocessor. `clean(memory, count)` reads `count` times 16
/// bytes: lines of the L2 that were written need not be written back during the block.
inline constexpr const char* kScrubKernel = R"(
struct TouchedPages {
  unsigned long long addresses[480], count;
};

extern "C" __global__ void touch(const TouchedPages pages) {
  for (unsigned i = threadIdx.x; i < pages.count; i += blockDim.x)
    (void)*(const volatile unsigned char*)pages.addresses[i];
}

extern "C" __global__ void clean(const uint4* memory, unsigned long long count) {
  const unsigned long long step = 1ull * gridDim.x * blockDim.x;
  unsigned any = 0;
  for (unsigned long long i = 1ull * blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint4 line = __ldcg(memory + i);
    any |= line.x ^ line.y ^ line.z ^ line.w;
  }
  if (any == 0x12345) __trap();  // never: the memory holds one byte everywhere
}

extern "C" __global__ void __launch_bounds__(1024, 1) scrub(unsigned pattern, unsigned bytes) {
  extern __shared__ volatile unsigned memory[];
  unsigned registers[60];
  for (unsigned i = threadIdx.x; i < bytes / 4; i += 1024) memory[i] = pattern;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 60; ++i) registers[i] = memory[threadIdx.x + i];
  __syncthreads();
  // The factor is known only here, so all values stay live in registers up to this point.
  const unsigned factor = memory[threadIdx.x];
  unsigned sum = 0;
#pragma unroll
  for (int i = 0; i < 60; ++i) sum = sum * factor + registers[i];
  if (sum == 0x12345) memory[0] = pattern;
}

#define SCRUB_LOCAL(bytes)                                                                        \
  extern "C" __global__ void __launch_bounds__(1024, 2) scrub_local_##bytes(unsigned pattern) {   \
    volatile unsigned memory[bytes / 4];                                                          \
    for (unsigned i = 0; i < bytes / 4; ++i) memory[i] = pattern;                                 \
  }
SCRUB_LOCAL(512)
SCRUB_LOCAL(2048)
SCRUB_LOCAL(16384)
)";

/// The N of `scrub_local_N`, rising.
inline constexpr int kScrubbedLocalBytes[] = {512, 2048, 16384};

}  // namespace lathe::cuda
