#pragma once

#include <string>

#include "candidate/dialect.h"
#include "task/spec.h"

namespace lathe {

/// A task whose naive build does enough arithmetic a row that a row more is a row's time more on a
/// processor; on a GPU some microseconds of memory traffic.
Result<TaskSpec> timing_task(Dialect dialect);

/// The naive build itself; with more work, a copy of it that computes its first items again. `copy`
/// makes texts differ. A GPU's can do no more work. Errors: kInvalid, the naive build has another
/// signature.
Result<std::string> timing_probe(const TaskSpec& task, Dialect dialect, int extra_percent, int copy);

}  // namespace lathe
