#pragma once

#include <span>
#include <vector>

namespace lathe {

/// The processors that the calling thread may run on, ascending; empty where the kernel does not say.
std::vector<int> usable_processors();
/// Those of `all` that are not in `taken`.
std::vector<int> processors_besides(std::span<const int> all, std::span<const int> taken);
/// Keeps the calling thread on `processors`; without effect if there are none or the kernel refuses.
void keep_thread_on(std::span<const int> processors);

/// Keeps the calling thread on some processors for as long as it lives.
class ThreadPlacement {
 public:
  explicit ThreadPlacement(std::span<const int> processors);
  ~ThreadPlacement();
  ThreadPlacement(const ThreadPlacement&) = delete;
  ThreadPlacement& operator=(const ThreadPlacement&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace lathe
