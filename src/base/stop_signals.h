#pragma once

#include "base/cancel.h"

namespace lathe {

/// From now on SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP cancel the token. A second
/// signal ends the program at once, unless it is the same within a moment: timeout(1) sends its own
/// to the program and again to its process group. For main programs, whose signals these are.
const CancelToken& cancelled_by_signals();

}  // namespace lathe
