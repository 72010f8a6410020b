#pragma once

#include <functional>

#include "base/result.h"

namespace lathe::vendor {

/// Device memory of the current context, zeroed, by way of the driver, which is bound at run time.
class GpuMemory {
 public:
  GpuMemory() = default;
  static Result<GpuMemory> create(std::size_t bytes);
  GpuMemory(GpuMemory&& other) noexcept;
  GpuMemory& operator=(GpuMemory&& other) noexcept;
  ~GpuMemory();

  void* pointer() const { return reinterpret_cast<void*>(address_); }
  std::size_t bytes() const { return bytes_; }

 private:
  unsigned long long address_ = 0;
  std::size_t bytes_ = 0;
};

struct EventTag;

/// Times calls on a stream of its own, which libraries may hold on to: it lives as long as the process.
class GpuClock {
 public:
  static Result<GpuClock> create();
  void* stream() const { return stream_; }

  /// A call's time in milliseconds, as graphs of calls run it: the best of several runs of a graph that has
  /// as many calls as the clock needs. One call runs before, which loads what it needs. `enqueue` puts a call
  /// on the stream and returns 0 or a library's error code. Errors: kInvalid, it refuses or cannot be
  /// recorded; kUnavailable, the device failed.
  Result<float> time(const std::function<int()>& enqueue) const;

 private:
  Result<float> time_graph(const std::function<int()>& enqueue, int calls) const;

  void* stream_ = nullptr;
  EventTag* begin_ = nullptr;
  EventTag* end_ = nullptr;
};

}  // namespace lathe::vendor
