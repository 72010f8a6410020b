#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct DiffLine {
  enum class Kind { kSame, kRemoved, kAdded };
  Kind kind = Kind::kSame;
  int old_number = 0;     ///< from 1; 0 for an added line
  int new_number = 0;     ///< from 1; 0 for a removed line
  std::string_view text;  ///< without its newline; views the input
};

/// A shortest edit script between two texts, line by line (Myers, "An O(ND) Difference Algorithm",
/// 1986). Texts that differ in more than 2000 lines come out as one removal and one addition.
std::vector<DiffLine> diff_lines(std::string_view before, std::string_view after);

}  // namespace lathe
