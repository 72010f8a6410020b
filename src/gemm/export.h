#pragma once

#include "gemm/journal.h"

namespace lathe::gemm {

struct ExportTargets {
  Compile sm90;  ///< required
  Compile sm80;  ///< for the general kernels on older GPUs; may be empty
};

struct ExportReport {
  int kernels = 0, tuned_sizes = 0;
  std::size_t cubin_bytes = 0;
};

/// Writes the package to `folder`: include/lathe_gemm.h, lib/liblathe_gemm.so,
/// lathe_gemmConfig.cmake and the sources of the library, with the kernels that the journal chose
/// and the general ones inside. Errors: the journal names a kernel that does not build; there is no
/// C++ compiler.
Result<ExportReport> export_library(const Journal& journal, const ExportTargets& targets,
                                    const std::string& folder);

/// The table of the library as C++: images in the order of `plans`, of which entries name the
/// index.
std::string table_source(const std::vector<Plan>& plans,
                         const std::vector<std::pair<std::size_t, std::size_t>>& offsets,
                         const std::vector<std::pair<Size, std::size_t>>& entries);

}  // namespace lathe::gemm
