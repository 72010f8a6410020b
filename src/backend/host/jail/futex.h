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

}  // namespace lathe::host
