#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/engine.h"
#include "model/tokenizer.h"

namespace lathe {

/// A finite set of texts: the paths of a graph without cycles, from state 0 to a state that may
/// end.
struct TextGrammar {
  struct Edge {
    std::string text;  ///< written on the way; not empty
    std::int32_t to = 0;
  };
  struct State {
    std::vector<Edge> edges;
    bool end = false;  ///< a text may end here
  };
  std::vector<State> states;

  bool accepts(std::string_view text) const;
  /// Bytes; no text has more tokens.
  std::int64_t longest_text() const;
};

/// All ways to write the grammar's texts in tokens, each followed by `end`. Errors: kInvalid for a
/// tokenizer that cannot write one of them, such as one without single bytes.
Result<std::shared_ptr<const TokenAutomaton>> token_automaton(const TextGrammar& grammar,
                                                              const Tokenizer& tokenizer, TokenId end);

}  // namespace lathe
