#pragma once

#include <cstdint>

namespace lathe::cuda {

/// Addresses that one launch of `touch` reads, by value. The same layout in kScrubKernel.
struct TouchedPages {
  static constexpr unsigned kMost = 480;
  std::uint64_t addresses[kMost] = {};
  std::uint64_t count = 0;
};

/// What a launcher runs before a block. Trusted text. `scrub` overwrites the shared memory and the registers
/// that the last block left; a block takes a whole multiprocessor; it takes (unsigned pattern, unsigned
/// bytes): of dynamic shared memory. `touch` takes TouchedPages: so that pages which nobody has used yet cost
/// a block no more than others.
inline constexpr const char* kScrubKernel = R"(
struct TouchedPages {
  unsigned long long addresses[480], count;
};

extern "C" __global__ void touch(const TouchedPages pages) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pages.count) (void)*(const volatile unsigned char*)pages.addresses[i];
}

extern "C" __global__ void __launch_bounds__(1024, 1) scrub(unsigned pattern, unsigned bytes) {
  extern __shared__ volatile unsigned memory[];
  unsigned registers[60];
  for (unsigned i = threadIdx.x; i < bytes / 4; i += 1024) memory[i] = pattern;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 60; ++i) registers[i] = memory[threadIdx.x + i];
  __syncthreads();
  // What multiplies is only known now, so all values stay in registers until here.
  const unsigned factor = memory[threadIdx.x];
  unsigned sum = 0;
#pragma unroll
  for (int i = 0; i < 60; ++i) sum = sum * factor + registers[i];
  if (sum == 0x12345) memory[0] = pattern;
}
)";

}  // namespace lathe::cuda
