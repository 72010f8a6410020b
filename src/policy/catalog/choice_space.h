#pragma once

#include "policy/choice_space.h"

namespace lathe {

/// The catalogue's schedules of a task as choices. Errors: a task for which the catalogue has no
/// pattern.
Result<std::unique_ptr<ChoiceSpace>> make_schedule_space(const PolicyContext& context);

}  // namespace lathe
