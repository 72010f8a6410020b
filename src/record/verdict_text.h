#pragma once

#include <string>
#include <string_view>

#include "record/verdict.h"

namespace lathe {

/// Records in words, for people and for policies that write kernels.

/// A profile: bottlenecks first, then roofs, memory, warps, stalls, energy, a line each.
std::string profile_text(const ShapeProfile& profile);

/// "1980 MHz, 430 W, 44 C"; empty where the device said nothing.
std::string device_state_text(const Verdict& verdict);

/// What the author of a kernel should know before writing the next one: how the verdict came about, the worst
/// case of its evidence, the time and the speedup over `peer` at each scored shape, the compiler's log where
/// it did not build, the profile where there is one. A few lines; hidden shapes stay hidden.
std::string feedback_text(const Verdict& verdict, std::string_view peer);

}  // namespace lathe
