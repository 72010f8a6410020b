#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/processors.h"

namespace lathe {
namespace {

constexpr std::size_t kPartElements = 1 << 20;

}  // namespace

Status for_each_index(int count, const std::function<Status(int)>& each) {
  std::atomic<int> next{0};
  std::mutex mutex;
  std::map<int, Error> errors;
  const auto work = [&] {
    for (int i = next++; i < count; i = next++) {
      Status done = each(i);
      if (done.ok()) continue;
      std::lock_guard lock(mutex);
      errors.emplace(i, done.error());
      next = count;
    }
  };
  const int threads = std::min(count, std::max(1, static_cast<int>(usable_processors().size())));
  std::vector<std::jthread> helpers;
  for (int t = 1; t < threads; ++t) helpers.emplace_back(work);
  work();
  helpers.clear();
  return errors.empty() ? Status(Ok{}) : Status(errors.begin()->second);
}

void for_each_part(std::size_t count, const std::function<void(std::size_t, std::size_t)>& each) {
  if (count < 2 * kPartElements) return each(0, count);
  const auto parts = static_cast<int>(count / kPartElements);
  (void)for_each_index(parts, [&](int i) -> Status {
    const auto part = static_cast<std::size_t>(i);
    each(part * kPartElements, i + 1 < parts ? (part + 1) * kPartElements : count);
    return Ok{};
  });
}

}  // namespace lathe
