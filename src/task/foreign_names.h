#pragma once

#include <string>
#include <string_view>

namespace lathe {

/// What the language says instead of an op of PyTorch or NumPy; empty if the name is not known.
std::string hint_for_foreign_op(std::string_view op);

/// The same for an attribute of the op `of`.
std::string hint_for_foreign_attribute(std::string_view of, std::string_view attribute);

}  // namespace lathe
