#pragma once

#include <string>

#include "record/verdict.h"

namespace lathe {

/// A profile for people: bottlenecks first, then roofs, memory, warps, stalls, energy, a line each.
std::string profile_text(const ShapeProfile& profile);

/// "1980 MHz, 430 W, 44 C"; empty where the device said nothing.
std::string device_state_text(const Verdict& verdict);

}  // namespace lathe
