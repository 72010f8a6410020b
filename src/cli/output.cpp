#include "cli/output.h"

#include <nlohmann/json.hpp>

namespace lathe::cli {

void print_error(const Error& error, std::string_view what) {
  const Error shown{.message = visible_lines(error.message, "    "),
                    .hint = visible_lines(error.hint, "    "),
                    .where = {visible_line(error.where.file), error.where.line, error.where.column}};
  fmt::print(stderr, "lathe: {}{}{}\n", visible_line(what), what.empty() ? "" : ": ", shown.to_string());
}

void print_block(std::FILE* file, std::string_view indent, std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  fmt::print(file, "{}{}\n", indent, visible_lines(text, indent));
}

void print_json(const nlohmann::json& document) {
  fmt::print("{}\n", document.dump(2, ' ', true, nlohmann::json::error_handler_t::replace));
}

}  // namespace lathe::cli
