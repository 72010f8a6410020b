#include "base/clock.h"

#include <ctime>

namespace lathe {

std::int64_t SteadyClock::now_ns() const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

std::int64_t unix_seconds() { return std::time(nullptr); }

}  // namespace lathe
