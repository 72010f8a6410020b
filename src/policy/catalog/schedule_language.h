#pragma once

#include "policy/language.h"

namespace lathe {

/// "schedule": the catalogue's schedule text (schedule_text.h), of which the emitter makes the
/// kernel. Prompts list the task's kernels with their knobs and defaults.
std::shared_ptr<const ActionLanguage> make_schedule_language();

}  // namespace lathe
