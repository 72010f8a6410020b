#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct ObjectSymbol {
  enum class Kind { kUndefined, kFunction, kVariable, kThreadLocal };
  std::string name;
  Kind kind = Kind::kUndefined;
  std::uint64_t bytes = 0;
  bool writable = false;        ///< a variable outside the constants and what is read-only once relocated
  bool starts_as_zero = false;  ///< a variable without bytes in the file
};

/// The symbols of an object's full table, local ones too, in its order. For messages only: a
/// candidate can name its symbols as it likes. Empty for an object without a table, or with a
/// damaged one.
std::vector<ObjectSymbol> symbols_of(std::string_view object);

}  // namespace lathe
