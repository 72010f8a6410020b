#pragma once

#include <functional>

#include "base/result.h"

namespace lathe::vendor {

/// Zeroed device memory of the current context, allocated through the driver, which is loaded at
/// run time.
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

/// Times calls on a stream of its own. The stream lives as long as the process, because libraries
/// may keep a reference to it.
class GpuClock {
 public:
  static Result<GpuClock> create();
  void* stream() const { return stream_; }

  /// The time of a call in milliseconds: the best of several runs of a CUDA graph with enough calls
  /// for the clock's resolution, after one call that loads its kernels. `enqueue` enqueues the call
  /// and returns 0 or a library's error code. Errors: kInvalid if the call is refused or cannot be
  /// captured; kUnavailable if the device failed.
  Result<float> time(const std::function<int()>& enqueue) const;

 private:
  Result<float> time_graph(const std::function<int()>& enqueue, int calls) const;

  void* stream_ = nullptr;
  EventTag* begin_ = nullptr;
  EventTag* end_ = nullptr;
};

}  // namespace lathe::vendor
