#include "gemm/kernel_builder.h"

#include <algorithm>

#include "gemm/kernel_source.h"

namespace lathe::gemm {

KernelBuilder::KernelBuilder(Compile compile, int threads) : compile_(std::move(compile)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

KernelBuilder::~KernelBuilder() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

void KernelBuilder::want(const std::vector<Plan>& plans, Urgency urgency) {
  {
    std::lock_guard lock(mutex_);
    std::size_t first = 0;
    for (const Plan& plan : plans) {
      const std::string name = name_of(plan);
      const bool is_new = jobs_.try_emplace(name, Job{.plan = plan}).second;
      if (urgency == Urgency::kLater) {
        if (is_new) waiting_.push_back(name);
        continue;
      }
      const auto found = std::find(waiting_.begin(), waiting_.end(), name);
      if (found != waiting_.end())
        waiting_.erase(found);
      else if (!is_new)
        continue;
      waiting_.insert(waiting_.begin() + static_cast<std::ptrdiff_t>(first++), name);
    }
  }
  changed_.notify_all();
}

Result<Build> KernelBuilder::take(const Plan& plan) {
  want({plan}, Urgency::kNow);
  std::unique_lock lock(mutex_);
  const auto found = jobs_.find(name_of(plan));
  changed_.wait(lock, [&] { return found->second.done; });
  Result<Build> build = std::move(found->second.build);
  jobs_.erase(found);
  return build;
}

void KernelBuilder::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
    if (stopped_) return;
    Job& job = jobs_.at(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    Result<Build> build = compile_(kernel_source(job.plan), Inspect::kNo);
    lock.lock();
    job.build = std::move(build);
    job.done = true;
    changed_.notify_all();
  }
}

}  // namespace lathe::gemm
