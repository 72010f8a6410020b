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
/// lathe_gemmConfig.cmake and the sources of the library, with the kernels that the journals chose
/// and the general ones inside. Errors: a journal names a kernel that does not build; there is no
/// C++ compiler.
Result<ExportReport> export_library(const std::vector<Journal>& journals, const ExportTargets& targets,
                                    const std::string& folder);

/// A size of a track, and the number of its kernel.
struct TunedSize {
  Track track;
  Size size;
  std::size_t image = 0;

  friend auto operator<=>(const TunedSize&, const TunedSize&) = default;
};

/// The table of the library as C++: images in the order of `plans`, of which entries name the
/// index.
std::string table_source(const std::vector<Plan>& plans,
                         const std::vector<std::pair<std::size_t, std::size_t>>& offsets,
                         const std::vector<TunedSize>& entries);

}  // namespace lathe::gemm
