#pragma once

#include "model/text_grammar.h"
#include "policy/catalog/compile.h"

namespace lathe::catalog {

/// The canonical texts of all schedules of a task on a target. Which knobs there are depends on the
/// choices before them; two beginnings count as one where the emitter asks for the same afterwards,
/// with the defaults and in several random continuations. Errors: what compile() says; kInvalid
/// beyond some thousand states.
Result<TextGrammar> schedule_grammar(const Graph& graph, const Target& target);

}  // namespace lathe::catalog
