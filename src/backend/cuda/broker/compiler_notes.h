#pragma once

#include <map>
#include <string>
#include <string_view>

namespace lathe::cuda {

/// Performance notes of the compiler's log, as numbers for BuildFacts: "spill_bytes" (stored and
/// loaded), "wgmma_serialised" (C7510 and similar), "setmaxnreg_ignored". Keys without a note are
/// absent. The log must come from a build with kNoteFlags.
std::map<std::string, double> facts_of_log(std::string_view log);
inline constexpr const char* kNoteFlags = "--ptxas-options=-warn-spills";

/// Resource usage of the cubin's kernels: "registers", "stack_bytes", "shared_bytes" of the
/// largest, and "registers of <kernel>" and so on for each if there are several.
std::map<std::string, double> facts_of_cubin(std::string_view cubin);

}  // namespace lathe::cuda
