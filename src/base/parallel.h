#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"

namespace lathe {

/// Calls each(0), ..., each(count - 1), on as many threads as this one may use processors, in any order.
/// After an error nothing new begins; the one of the lowest index is returned.
Status for_each_index(int count, const std::function<Status(int)>& each);
/// The same on at most so many threads.
Status for_each_index(int count, int threads, const std::function<Status(int)>& each);

/// Calls each(0), ..., each(count - 1): in turn or, where all together take so many operations that starting
/// threads is little beside them, side by side.
void for_each_job(std::int64_t count, double operations, const std::function<void(std::int64_t)>& each);

/// Calls each(begin, end) for parts that make up [0, count), likewise: a pass over memory.
void for_each_part(std::size_t count, const std::function<void(std::size_t, std::size_t)>& each);

}  // namespace lathe
