#pragma once

#include <ranges>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lathe {

/// The item of that name among some that have one each; `what` they are is for the message. Errors:
/// kInvalid; the hint names all that there are.
template <std::ranges::input_range Items>
Result<std::ranges::range_value_t<Items>> find_named(const Items& items, std::string_view name,
                                                     std::string_view what) {
  std::string known;
  for (const auto& item : items) {
    if (item.name == name) return item;
    known += (known.empty() ? "" : ", ") + std::string(item.name);
  }
  return invalid("unknown " + std::string(what) + " '" + std::string(name) + "'", "one of: " + known);
}

}  // namespace lathe
