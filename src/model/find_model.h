#pragma once

#include <string>

#include "base/result.h"

namespace lathe {

/// A file or folder as it is named, or the file of a model that scripts/fetch_models.sh has
/// fetched. Errors: kNotFound, with the ways to have one.
Result<std::string> find_model(const std::string& name);

}  // namespace lathe
