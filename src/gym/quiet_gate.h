#pragma once

#include <condition_variable>
#include <mutex>

namespace lathe {

/// Keeps compiles away from timings on machines with few cores. Any number of noisy jobs may run together, or
/// one quiet one alone; a quiet job that waits goes first, so timing never starves.
class QuietGate {
 public:
  explicit QuietGate(bool needed) : needed_(needed) {}

  class Lease {
   public:
    Lease(QuietGate& gate, bool quiet) : gate_(gate), quiet_(quiet) { gate_.enter(quiet_); }
    ~Lease() { gate_.leave(quiet_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    QuietGate& gate_;
    bool quiet_;
  };

 private:
  void enter(bool quiet) {
    if (!needed_) return;
    std::unique_lock lock(mutex_);
    if (quiet) {
      ++quiet_waiting_;
      changed_.wait(lock, [&] { return noisy_ == 0 && !quiet_running_; });
      --quiet_waiting_;
      quiet_running_ = true;
    } else {
      changed_.wait(lock, [&] { return quiet_waiting_ == 0 && !quiet_running_; });
      ++noisy_;
    }
  }
  void leave(bool quiet) {
    if (!needed_) return;
    std::lock_guard lock(mutex_);
    if (quiet)
      quiet_running_ = false;
    else
      --noisy_;
    changed_.notify_all();
  }

  const bool needed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int noisy_ = 0;
  int quiet_waiting_ = 0;
  bool quiet_running_ = false;
};

}  // namespace lathe
