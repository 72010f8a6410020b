#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lathe {

/// A hint for a misspelt name: "did you mean 'gelu'?" if one of the allowed names is near, else
/// "allowed: a, b, c".
std::string did_you_mean(std::string_view written, std::span<const std::string> allowed);

/// A name that kernels, plans and expressions can use: a C identifier that is no keyword and no
/// function of expressions, at most 64 characters.
bool is_usable_name(std::string_view text);

}  // namespace lathe
