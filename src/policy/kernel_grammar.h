#pragma once

#include "candidate/dialect.h"
#include "model/text_grammar.h"
#include "task/spec.h"

namespace lathe {

/// All answers with a kernel for `dialect` whose front matter can be read: any text, a block ```cpp
/// that begins with a plan, and code. A plan's tables and keys stand in the order in which prompts
/// and the catalogue write them; its names are the task's own and those of its scratch buffers
/// (s_...) and maps (m_..., g0_...). Left out are repeat, index, carveout and non_portable. That
/// names are declared once and how many arguments a function takes is not said here; brackets in
/// expressions are nested six deep at most.
TextGrammar kernel_grammar(const TaskSpec& task, Dialect dialect);

}  // namespace lathe
