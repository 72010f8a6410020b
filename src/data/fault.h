#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace lathe {

/// A kernel with one mistake of a kind that authors make.
struct FaultyKernel {
  std::string text;
  std::string fault;   ///< "barrier"
  std::string repair;  ///< what is wrong, as one who mends it would say: "A barrier was missing."
};

/// At most `count` faulty forms of a candidate, each with another fault, at places drawn by `rng`.
/// Some may still be right (a barrier that was not needed): only a verdict tells.
std::vector<FaultyKernel> inject_faults(std::string_view candidate_text, int count, Rng& rng);

}  // namespace lathe
