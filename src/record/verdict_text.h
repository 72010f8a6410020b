#pragma once

#include <string>
#include <string_view>

#include "record/verdict.h"

namespace lathe {

/// Records in words, for people.

/// A profile: bottlenecks first, then roofs, memory, warps, stalls, energy, a line each.
std::string profile_text(const ShapeProfile& profile);

/// "1980 MHz, 430 W, 44 C"; empty where the device said nothing.
std::string device_state_text(const Verdict& verdict);

}  // namespace lathe
