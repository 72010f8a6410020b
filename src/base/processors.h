#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

/// The processors that the calling thread may run on, in ascending order; empty if unknown.
std::vector<int> usable_processors();
/// Of each processor the lowest that shares its core's units (simultaneous multithreading): itself
/// where it has a core of its own, or where the system does not say.
std::vector<int> cores_of(std::span<const int> processors);
/// The elements of `all` that are not in `taken`.
std::vector<int> processors_besides(std::span<const int> all, std::span<const int> taken);
/// Restricts the calling thread to `processors`. Best effort; an empty list changes nothing.
void keep_thread_on(std::span<const int> processors);

/// How long who waits for an answer of microseconds may look out for it in place of sleeping: 0
/// where that would take a processor from those who work.
std::int64_t spin_ns_of_waiters();

/// Restricts the calling thread to some processors during its lifetime, then restores the previous
/// affinity.
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
