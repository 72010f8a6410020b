#pragma once

#include <set>
#include <string>
#include <vector>

#include "library/export.h"

namespace lathe {

/// A kernel compiled for one set of constants; its symbols end in `suffix`.
struct KernelVariant {
  const Candidate* candidate = nullptr;
  Dims constants;
  std::string suffix;  ///< "_v0", "_fallback"
  bool fallback = false;
};

/// One variant for each set of constants that the scored shapes need, a single one if the plan has
/// none; then the fallback, if there is one.
std::vector<KernelVariant> kernel_variants(const ExportRequest& request);

/// The functions that a variant's plan launches.
std::set<std::string> kernels_of(const KernelVariant& variant);

/// "lathe_<name>_v0_<kernel>": what a variant's kernel is called in the object file.
std::string kernel_symbol(const std::string& package, const KernelVariant& variant,
                          const std::string& kernel);

/// Where a package keeps the variant's candidate as Lathe found it: "softmax_rows.lathe.cpp".
std::string text_file(const std::string& package, const KernelVariant& variant);

/// A translation unit with the candidate's text: its includes first, the rest in the variant's own
/// namespace, so that helpers of two kernels in one program do not clash.
std::string variant_source(const std::string& package, const KernelVariant& variant);

/// The C header of a package.
std::string header_source(const ExportRequest& request, const std::string& package);

/// The C++ implementation: the plans' expressions as code over integers that detect overflow and
/// division by zero. Errors: an expression uses a device fact that the request lacks.
Result<std::string> dispatcher_source(const ExportRequest& request, const std::string& package,
                                      const std::vector<KernelVariant>& variants);

/// fmt template of a package's C header: name, task, data, dims.
extern const char* const kHeaderTemplate;

/// The runtime included in every dispatcher: checked integer arithmetic, and the distribution of
/// work over the caller's threads.
extern const char* const kDispatcherRuntime;

/// lathe_<name>Config.cmake: defines the target from source, wherever the folder is.
std::string cmake_config(const std::string& package, const std::vector<KernelVariant>& variants);
/// CMakeLists.txt, for add_subdirectory and FetchContent.
std::string cmake_lists(const std::string& package);
/// evidence.json: what was verified and measured, and where (docs/json.md).
std::string evidence_json(const ExportRequest& request, const std::string& package);
std::string readme(const ExportRequest& request, const std::string& package,
                   const std::vector<KernelVariant>& variants);

}  // namespace lathe
