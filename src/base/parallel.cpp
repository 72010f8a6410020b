#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/processors.h"

namespace lathe {
namespace {

constexpr std::size_t kPartElements = 1 << 20;
constexpr double kWorthThreads = 1 << 22;  // operations, some milliseconds

}  // namespace

Status for_each_index(int count, const std::function<Status(int)>& each) {
  return for_each_index(count, static_cast<int>(usable_processors().size()), each);
}

Status for_each_index(int count, int threads, const std::function<Status(int)>& each) {
  std::atomic<int> next{0};
  std::mutex mutex;
  std::map<int, Error> errors;
  std::exception_ptr thrown;
  const auto take_all = [&] {
    for (int i = next++; i < count; i = next++) {
      Status done = each(i);
      if (done.ok()) continue;
      std::lock_guard lock(mutex);
      errors.emplace(i, done.error());
      next = count;
    }
  };
  const auto work = [&] {
    try {
      take_all();
    } catch (...) {
      std::lock_guard lock(mutex);
      thrown = std::current_exception();
      next = count;
    }
  };
  std::vector<std::jthread> helpers;
  try {
    for (int t = 1; t < std::min(count, threads); ++t) helpers.emplace_back(work);
  } catch (const std::exception&) {
    // Where the system gives no more threads, those that are there do it all.
  }
  work();
  helpers.clear();
  if (thrown) std::rethrow_exception(thrown);
  return errors.empty() ? Status(Ok{}) : Status(errors.begin()->second);
}

void for_each_job(std::int64_t count, double operations, const std::function<void(std::int64_t)>& each) {
  if (operations < kWorthThreads) {
    for (std::int64_t i = 0; i < count; ++i) each(i);
    return;
  }
  (void)for_each_index(static_cast<int>(count), [&](int i) -> Status { return each(i), Ok{}; });
}

void for_each_part(std::size_t count, const std::function<void(std::size_t, std::size_t)>& each) {
  const std::size_t parts = (count + kPartElements - 1) / kPartElements;
  for_each_job(static_cast<std::int64_t>(parts), static_cast<double>(count), [&](std::int64_t i) {
    const std::size_t begin = static_cast<std::size_t>(i) * kPartElements;
    each(begin, std::min(count, begin + kPartElements));
  });
}

}  // namespace lathe
