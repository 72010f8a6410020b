#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/processors.h"

namespace lathe {

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

}  // namespace lathe
