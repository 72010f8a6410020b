#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "task/bound_task.h"

/// Any text must parse or be refused with a message; what parses must bind at its own shapes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const lathe::Result<lathe::TaskSpec> spec = lathe::parse_task(text, "fuzz.toml");
  if (!spec.ok()) {
    if (spec.error().message.empty()) std::abort();
    return 0;
  }
  for (const lathe::NamedShape& shape : spec->shapes) {
    if (!lathe::bind(*spec, shape.dims).ok()) std::abort();
  }
  (void)lathe::draw_hidden_shapes(*spec, lathe::Seed::from_number(1), 2, 1e6);
  return 0;
}
