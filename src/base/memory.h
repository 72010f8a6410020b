#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lathe {

/// The bytes that this process could still take without another's being swapped out or killed: what
/// the system has, and what the limits of its control groups leave. nullopt if the system does not
/// say. `root`: where /proc and /sys are.
std::optional<std::int64_t> available_memory(const std::string& root = "");

/// The bytes that this process and all others of its control groups may have at most. nullopt if
/// the system does not say.
std::optional<std::int64_t> total_memory(const std::string& root = "");

}  // namespace lathe
