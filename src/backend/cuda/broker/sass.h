#pragma once

#include <map>
#include <string>
#include <string_view>

namespace lathe::cuda {

/// Counts the machine instructions in a disassembly, which is untrusted: "instructions" in total,
/// and those kinds that occur: "hgmma_f32" and "hmma_f16" (tensor cores, by accumulator), "ffma",
/// "ldg_128" (of "ldg"), "ldl" (local memory), "utmaldg" and so on.
std::map<std::string, double> facts_of_sass(std::string_view text);

}  // namespace lathe::cuda
