#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "record/json.h"

namespace {

/// Whatever is read must be written as text that reads as an equal value.
template <class Read>
void must_round_trip(const nlohmann::json& json, Read read) {
  const auto value = read(json);
  if (!value.ok()) {
    if (value.error().message.empty()) std::abort();
    return;
  }
  const nlohmann::json printed = lathe::to_json(*value);
  const auto parsed = lathe::parse_json(lathe::json_text(printed), "printed");
  if (!parsed.ok()) std::abort();
  const auto again = read(*parsed);
  if (!again.ok() || lathe::json_text(lathe::to_json(*again)) != lathe::json_text(printed)) std::abort();
}

}  // namespace

/// Rows of a store and documents of other programs may contain any bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = lathe::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!json.ok()) return 0;
  must_round_trip(*json, [](const auto& j) { return lathe::verdict_from_json(j); });
  must_round_trip(*json, [](const auto& j) { return lathe::lineage_from_json(j); });
  must_round_trip(*json, [](const auto& j) { return lathe::generation_from_json(j); });
  return 0;
}
