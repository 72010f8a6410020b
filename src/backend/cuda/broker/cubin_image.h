#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lathe::cuda {

/// What one kernel takes, by the compiler's own account in the cubin.
struct KernelResources {
  std::string name;
  std::int64_t registers = 0;     ///< a thread
  std::int64_t stack_bytes = 0;   ///< a thread: local arrays and spills
  std::int64_t shared_bytes = 0;  ///< static, a block
};

/// What a cubin holds, as the compile jail gave it: parsed without trust, every offset checked.
struct CubinImage {
  std::vector<std::string> kernels;
  std::uint64_t code_bytes = 0;
  std::uint64_t variable_bytes = 0;  ///< of __device__ variables without an initial value
  /// Of initialised ones, most of which are constants: the format does not tell. A launcher loads such a
  /// cubin anew for every block.
  std::uint64_t initialised_bytes = 0;
  std::vector<std::string> imports;
  std::vector<KernelResources> resources;  ///< one a kernel that the compiler says something of
};

/// Errors: kInvalid, not an ELF file for NVIDIA's GPUs.
Result<CubinImage> parse_cubin(std::string_view bytes);

/// Why it may not be loaded: "" or a stable reason code.
struct CubinRefusal {
  std::string reason;  ///< "bad_cubin", "writable_state", "forbidden_symbol"
  std::string detail;
};
CubinRefusal check_cubin(std::string_view bytes);

}  // namespace lathe::cuda
