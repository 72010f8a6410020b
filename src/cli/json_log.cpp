#include "cli/json_log.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "serve/service.h"

namespace lathe::cli {
namespace {

const char* name(Severity severity) {
  switch (severity) {
    case Severity::kDebug:
      return "debug";
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "";
}

}  // namespace

void JsonLog::on_event(const Event& event) {
  if (event.severity < least_) return;
  nlohmann::json line = {{"unix_ms", serve::unix_milliseconds()},
                         {"level", name(event.severity)},
                         {"process", process_},
                         {"pid", ::getpid()},
                         {"event", event.kind}};
  if (!event.text.empty()) line["text"] = event.text;
  for (const auto& [field, value] : event.fields) line[field] = value;
  write_standard_error(line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace lathe::cli
