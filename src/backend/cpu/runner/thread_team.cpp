#include "backend/cpu/runner/thread_team.h"

#include <immintrin.h>

#include "backend/cpu/runner/fault_report.h"
#include "base/processors.h"

namespace lathe {

ThreadTeam::ThreadTeam(int threads, const std::vector<std::int32_t>& cpus) : threads_(threads) {
  if (!cpus.empty()) keep_thread_on({cpus.data(), 1});
  for (int self = 1; self < threads; ++self)
    workers_.emplace_back([this, self, cpus] {
      if (!cpus.empty()) keep_thread_on({&cpus[static_cast<std::size_t>(self) % cpus.size()], 1});
      report_faults_of_thread();
      started_.fetch_add(1, std::memory_order_release);
      work(self);
    });
  while (started_.load(std::memory_order_acquire) < threads - 1) _mm_pause();
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true);
  round_.fetch_add(1);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run(std::int64_t items, const std::function<void(std::int64_t, std::int64_t)>& part) {
  if (threads_ == 1) return part(0, items);
  part_ = &part;
  items_ = items;
  running_.store(threads_ - 1, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  run_share(0);
  while (running_.load(std::memory_order_acquire) > 0) _mm_pause();
}

void ThreadTeam::run_share(int self) {
  const std::int64_t begin = items_ / threads_ * self + std::min<std::int64_t>(self, items_ % threads_);
  const std::int64_t size = items_ / threads_ + (self < items_ % threads_ ? 1 : 0);
  if (size > 0) (*part_)(begin, begin + size);
}

void ThreadTeam::work(int self) {
  for (std::uint64_t seen = 0;;) {
    while (round_.load(std::memory_order_acquire) == seen) _mm_pause();
    ++seen;
    if (stop_.load()) return;
    run_share(self);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace lathe
