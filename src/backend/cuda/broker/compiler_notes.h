#pragma once

#include <map>
#include <string>
#include <string_view>

namespace lathe::cuda {

/// What the compiler's log says of speed, as numbers for BuildFacts; keys that have nothing to say are
/// absent: "spill_bytes" (stored and loaded), "wgmma_serialised" (C7510 and its like), "setmaxnreg_ignored".
/// The log must come from a build with kNoteFlags.
std::map<std::string, double> facts_of_log(std::string_view log);
inline constexpr const char* kNoteFlags = "--ptxas-options=-warn-spills";

/// What the cubin says, kernel by kernel: "registers", "stack_bytes", "shared_bytes" for the largest,
/// "registers of <kernel>" and so on for each where there are several.
std::map<std::string, double> facts_of_cubin(std::string_view cubin);

}  // namespace lathe::cuda
