#pragma once

#include <mutex>

#include "backend/backend.h"

namespace lathe::cuda {

/// Sums up the time that sessions spend in each stage. Thread-safe.
class UsageMeter {
 public:
  /// Charges its own lifetime to a stage.
  class Stage {
   public:
    Stage(UsageMeter& meter, const char* name);
    ~Stage();
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

   private:
    UsageMeter& meter_;
    const char* name_;
    std::int64_t begin_ns_;
  };
  void add_block(double busy_ns);
  void add(const char* stage, double ns);
  DeviceUsage total() const;

 private:
  mutable std::mutex mutex_;
  DeviceUsage total_;
};

}  // namespace lathe::cuda
