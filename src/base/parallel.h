#pragma once

#include <cstddef>
#include <functional>

#include "base/result.h"

namespace lathe {

/// Calls each(0), ..., each(count - 1), on as many threads as this one may use processors, in any order.
/// After an error nothing new begins; the one of the lowest index is returned.
Status for_each_index(int count, const std::function<Status(int)>& each);

/// Calls each(begin, end) for parts that make up [0, count), side by side where they are large: for passes
/// over memory, which take one processor longer than starting threads does.
void for_each_part(std::size_t count, const std::function<void(std::size_t, std::size_t)>& each);

}  // namespace lathe
