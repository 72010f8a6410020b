#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gemm/runtime/launch.h"

// A driver without a GPU, as the library libcuda.so.1, for tests of what the library asks of a
// real one.

namespace lathe::gemm {

struct FakeLaunch {
  LaunchConfig config;
  Function function;
  Call call;
  std::uint64_t first_map_word = 0;  ///< of the first tensor map: the matrix it was encoded for
};

struct FakeCuda {
  std::vector<FakeLaunch> launches;
  int encoded = 0;  ///< tensor maps
  int loaded = 0;   ///< modules
  std::size_t free_bytes = std::size_t{1} << 30;
  Code launch_code = 0;
};

}  // namespace lathe::gemm

/// The driver's state, for whoever has loaded it.
extern "C" lathe::gemm::FakeCuda* lathe_fake_cuda();
