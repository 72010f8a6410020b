#include "base/result.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace lathe {

std::string Error::to_string() const {
  std::string text;
  if (!where.file.empty()) text += where.file + ":";
  if (where.line > 0) text += fmt::format("{}:", where.line);
  if (where.line > 0 && where.column > 0) text += fmt::format("{}:", where.column);
  if (!text.empty()) text += " ";
  text += message;
  if (!hint.empty()) text += "\n  hint: " + hint;
  return text;
}

Error errno_error(std::string action, std::string hint) {
  const int code = errno;
  if (code == EMFILE || code == ENFILE) hint = "raise the limit on open files: ulimit -n";
  return {ErrorCode::kIo, fmt::format("{}: {}", action, std::strerror(code)), std::move(hint)};
}

}  // namespace lathe
