#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backend/cpu/protocol.h"

namespace lathe {

/// Functions that a candidate may import, sorted: C's memory functions and scalar mathematics, and
/// how a kernel ends itself. They keep no state that outlives a block.
std::span<const std::string> allowed_imports();

/// For those that are no functions of a library's but end the block's process.
std::optional<protocol::SelfEnd> ending_of(std::string_view import);

/// Whether code that imports it reaches for the loader, the system or a library of kernels: no slip
/// of somebody who writes a kernel.
bool reaches_outside(std::string_view import);

}  // namespace lathe
