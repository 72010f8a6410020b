#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lathe {

/// Calls visit(value) for each line of JSON Lines in turn; empty ones are passed over. Errors: the
/// first of parse_json() or of `visit`, at its line of `path`.
Status for_each_json_line(std::string_view text, const std::string& path,
                          const std::function<Status(const nlohmann::json&)>& visit);

}  // namespace lathe
