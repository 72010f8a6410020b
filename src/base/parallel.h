#pragma once

#include <functional>

#include "base/result.h"

namespace lathe {

/// Calls each(0), ..., each(count - 1), on as many threads as this one may use processors, in any order.
/// After an error nothing new begins; the one of the lowest index is returned.
Status for_each_index(int count, const std::function<Status(int)>& each);

}  // namespace lathe
