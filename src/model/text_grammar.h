#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/engine.h"
#include "model/tokenizer.h"

namespace lathe {

/// A set of texts: the paths of a graph from state 0 to a state that may end.
struct TextGrammar {
  struct Edge {
    std::string text;  ///< written on the way; may be empty
    std::int32_t to = 0;
    bool late = false;  ///< any bytes may come first, as far as the first `text`, which is not empty
  };
  struct State {
    std::vector<Edge> edges;
    bool end = false;   ///< a text may end here
    bool open = false;  ///< and may go on in any way
  };
  std::vector<State> states;

  bool accepts(std::string_view text) const;
  /// Bytes; no text has more tokens. nullopt: there is no bound.
  std::optional<std::int64_t> longest_text() const;
};

/// All ways to write the grammar's texts in tokens, each followed by `end`. Special tokens are part
/// of no text but of what an open state lets follow, which goes on until it is stopped. Errors:
/// kInvalid for a tokenizer that cannot write one of them, such as one without single bytes.
Result<std::shared_ptr<const TokenAutomaton>> token_automaton(const TextGrammar& grammar,
                                                              const Tokenizer& tokenizer, TokenId end);

}  // namespace lathe
