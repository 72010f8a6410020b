#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace lathe {

/// The harness's worker threads. They are created before the lock-down and spin between steps, so
/// that a step makes no system call. Thread 0 is the caller. Lives until the process is killed.
class ThreadTeam {
 public:
  /// Returns once all threads spin: none makes a system call from then on.
  ThreadTeam(int threads, const std::vector<std::int32_t>& cpus);
  ~ThreadTeam();

  /// Calls `part(begin, end)` on every thread with its share of [0, items), and returns when all
  /// are done.
  void run(std::int64_t items, const std::function<void(std::int64_t, std::int64_t)>& part);

 private:
  void work(int self);
  void run_share(int self);

  int threads_;
  std::vector<std::thread> workers_;
  const std::function<void(std::int64_t, std::int64_t)>* part_ = nullptr;
  std::int64_t items_ = 0;
  std::atomic<std::uint64_t> round_{0};
  std::atomic<int> started_{0}, running_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace lathe
