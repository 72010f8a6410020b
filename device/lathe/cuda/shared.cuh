#pragma once

#include "lathe/cuda/math.cuh"

namespace lathe {

/// What shared-memory instructions call an address.
__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace lathe
