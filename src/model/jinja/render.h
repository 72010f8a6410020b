#pragma once

#include <string>

#include "model/jinja/syntax.h"

namespace lathe::jinja {

/// What a template writes with these variables (a dict). Bounded in steps, depth, and bytes of
/// text. Throws Failure with the place.
std::string render(const Block& block, const Value& variables);

}  // namespace lathe::jinja
