#pragma once

#include <string>
#include <vector>

#include "library/export.h"

namespace lathe {

/// The kernel compiled for one set of constants: its symbols end in `suffix`.
struct KernelVariant {
  Dims constants;
  std::string suffix;  ///< "_v0"
};

/// One variant for each set of constants that the scored shapes need; a single one if the plan has none.
std::vector<KernelVariant> kernel_variants(const ExportRequest& request);

/// "lathe_<name>_v0_<kernel>": what a variant's kernel is called in the object file.
std::string kernel_symbol(const std::string& package, const KernelVariant& variant,
                          const std::string& kernel);

/// A translation unit of the candidate's text. Its includes come first and the rest stands in a namespace of
/// the variant's own, so that helpers of two kernels in one program do not clash.
std::string variant_source(const ExportRequest& request, const std::string& package,
                           const KernelVariant& variant);

}  // namespace lathe
