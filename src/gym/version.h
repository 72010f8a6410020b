#pragma once

namespace lathe {

/// Changes with everything that may give an equal candidate another verdict.
inline constexpr const char* kGymVersion = "30";

}  // namespace lathe
