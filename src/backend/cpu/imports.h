#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lathe {

/// Functions that a candidate may import, sorted: C's memory functions and scalar mathematics, and
/// how an assertion ends. They keep no state that outlives a block.
std::span<const std::string> allowed_imports();

/// Whether code that imports it reaches for the loader, the system or a library of kernels: no slip
/// of somebody who writes a kernel.
bool reaches_outside(std::string_view import);

}  // namespace lathe
