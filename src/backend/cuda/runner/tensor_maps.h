#pragma once

#include "backend/cuda/runner/driver_api.h"
#include "backend/cuda/wire/arguments.h"

namespace lathe::cuda {

/// A tensor map as kernels receive it, by value.
struct alignas(64) EncodedMap {
  unsigned char bytes[128] = {};
};

/// Errors are the candidate's fault: "bad_tma: ...".
Status encode_map(const Driver& driver, const TensorMap& map, DevicePointer address, EncodedMap& encoded);

}  // namespace lathe::cuda
