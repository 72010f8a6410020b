#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"

namespace lathe {

/// Calls each(0), ..., each(count - 1) in any order, on one thread for each processor that the
/// caller may use. After an error no further call starts; returns the error with the lowest index.
/// What `each` throws arrives at the caller, once the other calls have ended.
Status for_each_index(int count, const std::function<Status(int)>& each);
/// for_each_index() on at most `threads` threads.
Status for_each_index(int count, int threads, const std::function<Status(int)>& each);

/// Calls each(0), ..., each(count - 1), in parallel if the `operations` of all calls together
/// outweigh the cost of starting threads (a few milliseconds of work), else in order.
void for_each_job(std::int64_t count, double operations, const std::function<void(std::int64_t)>& each);

/// Splits [0, count) into parts and calls each(begin, end) on them, in parallel if there are
/// several: for passes over memory.
void for_each_part(std::size_t count, const std::function<void(std::size_t, std::size_t)>& each);

}  // namespace lathe
