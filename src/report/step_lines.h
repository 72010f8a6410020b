#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace lathe {

/// Calls `visit(line)` for each of a training run's JSON lines that is of a step: an object with a
/// number "step". Others, such as a last one that was cut, are left out.
template <class Visit>
void each_step_line(std::string_view lines, const Visit& visit) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_object() && object.contains("step") && object["step"].is_number()) visit(object);
  }
}

}  // namespace lathe
