#pragma once

#include <cstdint>

namespace lathe {

/// The source of time; tests inject a FakeClock.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds since an arbitrary origin; monotonic.
  virtual std::int64_t now_ns() const = 0;
};

/// CLOCK_MONOTONIC_RAW, which NTP does not adjust.
class SteadyClock final : public Clock {
 public:
  std::int64_t now_ns() const override;
};

class FakeClock final : public Clock {
 public:
  std::int64_t now_ns() const override { return now_ns_; }
  void advance_ns(std::int64_t ns) { now_ns_ += ns; }

 private:
  std::int64_t now_ns_ = 0;
};

const Clock& steady_clock();

/// Measured by the steady clock.
inline double seconds_since(std::int64_t begin_ns) {
  return static_cast<double>(steady_clock().now_ns() - begin_ns) * 1e-9;
}

/// Adds its own lifetime to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += seconds_since(begin_ns_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::int64_t begin_ns_ = steady_clock().now_ns();
};

/// Wall-clock time in seconds since 1970, for display only.
std::int64_t unix_seconds();

}  // namespace lathe
