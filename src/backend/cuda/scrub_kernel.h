#pragma once

namespace lathe::cuda {

/// What a launcher runs before a block: overwrites the shared memory and the registers that the last one
/// left. Trusted text. A block takes a whole multiprocessor. Takes (unsigned pattern, unsigned bytes): of
/// dynamic shared memory.
inline constexpr const char* kScrubKernel = R"(
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
