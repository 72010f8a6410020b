#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

/// Waiting for words of shared memory. It depends on the C library alone.
namespace lathe::host {

inline void say(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  word.store(value, std::memory_order_release);
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

/// Waits for at most a second, as long as the word has this value.
inline void nap(std::atomic<std::uint32_t>& word, std::uint32_t value, long ns) {
  const timespec limit{0, ns};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

inline std::int64_t monotonic_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

/// As nap(), but first looks again and again for `spin_ns`: nobody has to be woken, which on an
/// idle processor of a virtual machine takes as long as a small kernel, now more, now less.
inline void watch(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t spin_ns, long ns) {
  for (const std::int64_t end_ns = monotonic_ns() + spin_ns; spin_ns > 0 && monotonic_ns() < end_ns;)
    for (int i = 0; i < 64; ++i) {
      if (word.load(std::memory_order_acquire) != value) return;
      __builtin_ia32_pause();
    }
  nap(word, value, ns);
}

}  // namespace lathe::host
