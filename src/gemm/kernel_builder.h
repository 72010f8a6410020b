#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gemm/device.h"

namespace lathe::gemm {

/// Compiles kernels ahead of their use, on threads of its own: the processors build while the GPU
/// measures. What has not begun when it is destroyed is dropped. One thread may use it.
class KernelBuilder {
 public:
  KernelBuilder(Compile compile, int threads);
  ~KernelBuilder();
  KernelBuilder(const KernelBuilder&) = delete;
  KernelBuilder& operator=(const KernelBuilder&) = delete;

  enum class Urgency { kLater, kNow };
  /// Those that are wanted now go before all that wait.
  void want(const std::vector<Plan>& plans, Urgency urgency);
  /// Waits for the kernel and forgets it.
  Result<Build> take(const Plan& plan);

 private:
  struct Job {
    Plan plan;
    bool done = false;
    Result<Build> build = Build{};
  };

  void work();

  Compile compile_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Job> jobs_;  ///< by the kernel's name
  std::deque<std::string> waiting_;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace lathe::gemm
