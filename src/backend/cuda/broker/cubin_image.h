#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lathe::cuda {

/// A kernel's resource usage, as the compiler recorded it in the cubin.
struct KernelResources {
  std::string name;
  std::int64_t registers = 0;     ///< per thread
  std::int64_t stack_bytes = 0;   ///< per thread: local arrays and spills
  std::int64_t shared_bytes = 0;  ///< static, per block
};

/// A cubin from the compile jail, parsed as untrusted input: every offset is checked.
struct CubinImage {
  std::vector<std::string> kernels;
  std::uint64_t code_bytes = 0;
  std::uint64_t variable_bytes = 0;  ///< of __device__ variables and constants whose initial value is zero
  /// Of initialised variables. Most are constants, but the format does not tell which, so a
  /// launcher reloads such a cubin for every block.
  std::uint64_t initialised_bytes = 0;
  std::vector<std::string> imports;
  std::vector<KernelResources> resources;  ///< one per kernel for which the cubin records any
};

/// Errors: kInvalid, not an ELF file for NVIDIA's GPUs.
Result<CubinImage> parse_cubin(std::string_view bytes);

/// Why a cubin must not be loaded. The reason is a stable code, or empty for one that may be.
struct CubinRefusal {
  std::string reason;  ///< "bad_cubin", "writable_state", "forbidden_symbol"
  std::string detail;
};
CubinRefusal check_cubin(std::string_view bytes);

}  // namespace lathe::cuda
