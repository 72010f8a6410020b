#pragma once

#include "conformance/conformance.h"

namespace lathe {

/// Reads `folder`/expected.toml. Errors carry file, line and column.
Result<std::vector<ConformanceCase>> read_conformance_table(const std::string& folder);

}  // namespace lathe
