#include "base/stop_signals.h"

#include <signal.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace lathe {
namespace {

constexpr std::int64_t kSameRequestNs = 200'000'000;

const CancelToken g_stop;  // a signal handler has no other way to say it
std::atomic<int> g_first_signal{0};
std::atomic<std::int64_t> g_first_ns{0};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

void on_signal(int signal) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t now_ns = now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
  if (!g_stop.cancelled()) {
    g_first_signal = signal;
    g_first_ns = now_ns;
    g_stop.cancel();
  } else if (signal != g_first_signal || now_ns - g_first_ns > kSameRequestNs) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}

}  // namespace

const CancelToken& cancelled_by_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  struct sigaction hang_up {};
  if (::sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN)
    ::sigaction(SIGHUP, &action, nullptr);
  return g_stop;
}

}  // namespace lathe
