#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace lathe {

std::vector<int> usable_processors() {
  cpu_set_t set;
  std::vector<int> processors;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor)
    if (CPU_ISSET(static_cast<std::size_t>(processor), &set)) processors.push_back(processor);
  return processors;
}

std::vector<int> cores_of(std::span<const int> processors) {
  std::vector<int> cores;
  for (const int processor : processors) {
    // "0,64" or "0-1"
    std::ifstream siblings("/sys/devices/system/cpu/cpu" + std::to_string(processor) +
                           "/topology/thread_siblings_list");
    int lowest = processor;
    siblings >> lowest;
    cores.push_back(siblings ? lowest : processor);
  }
  return cores;
}

std::vector<int> processors_besides(std::span<const int> all, std::span<const int> taken) {
  std::vector<int> rest;
  std::copy_if(all.begin(), all.end(), std::back_inserter(rest),
               [&](int one) { return std::find(taken.begin(), taken.end(), one) == taken.end(); });
  return rest;
}

void keep_thread_on(std::span<const int> processors) {
  if (processors.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(static_cast<std::size_t>(processor), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

std::int64_t spin_ns_of_waiters() {
  constexpr std::size_t kProcessorsToSpare = 8;
  constexpr std::int64_t kSpinNs = 2'000'000;
  return usable_processors().size() >= kProcessorsToSpare ? kSpinNs : 0;
}

ThreadPlacement::ThreadPlacement(std::span<const int> processors) {
  if (processors.empty()) return;
  before_ = usable_processors();
  keep_thread_on(processors);
}

ThreadPlacement::~ThreadPlacement() { keep_thread_on(before_); }

}  // namespace lathe
