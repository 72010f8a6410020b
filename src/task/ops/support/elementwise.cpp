#include "task/ops/support/elementwise.h"

#include <array>
#include <charconv>

namespace lathe::ops {

std::string float_literal(double value) {
  const auto narrow = static_cast<float>(value);
  if (std::isnan(narrow)) return "__builtin_nanf(\"\")";
  if (std::isinf(narrow)) return narrow > 0 ? "__builtin_inff()" : "(-__builtin_inff())";
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), narrow).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  text += "f";
  return narrow < 0 ? "(" + text + ")" : text;
}

}  // namespace lathe::ops
