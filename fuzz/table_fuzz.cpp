#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rl/table.h"

/// A schedule table from anywhere is read as it would be written again, or refused with a reason.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = lathe::rl::parse_table(text);
  if (!table.ok()) {
    if (table.error().message.empty()) std::abort();
    return 0;
  }
  const std::string written = lathe::rl::to_text(*table);
  const auto again = lathe::rl::parse_table(written);
  if (!again.ok() || lathe::rl::to_text(*again) != written) std::abort();
  for (const auto& task : table->tasks)
    if (task.find(task.usual().text()) == nullptr) std::abort();
  return 0;
}
