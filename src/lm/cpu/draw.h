#pragma once

#include <span>
#include <vector>

#include "lm/runner.h"

namespace lathe::lm {

/// Where a row stands in its stream and its grammar.
struct DrawState {
  Sampling sampling;
  std::uint64_t stream = 0;
  std::uint64_t counter = 0;
  const TokenAutomaton* grammar = nullptr;
  std::int32_t grammar_state = 0;
};

/// Draws a token from one row of logits; `scratch` is kept between calls for its memory. A grammar
/// must allow something. kNoToken where the logits are not finite.
Drawn draw(std::span<const float> logits, const DrawState& state, std::vector<float>& scratch);

}  // namespace lathe::lm
