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

/// The shortest of several runs of what `enqueue` puts on the context's default stream, after one that is not
/// timed: milliseconds. Errors: `enqueue` returned other than 0, or the device failed.
Result<float> time_on_gpu(const std::function<int()>& enqueue);

}  // namespace lathe::vendor
