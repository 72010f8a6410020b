#include "record/json_lines.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "record/json.h"

namespace lathe {

Status for_each_json_line(std::string_view text, const std::string& path,
                          const std::function<Status(const nlohmann::json&)>& visit) {
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    const Status visited = [&]() -> Status {
      LATHE_TRY(const nlohmann::json value, parse_json(line, "the line"));
      return visit(value);
    }();
    if (!visited.ok()) {
      Error error = visited.error();
      error.where = {path, number, 0};
      return error;
    }
  }
  return Ok{};
}

}  // namespace lathe
