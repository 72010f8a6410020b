// Uses a device's lane as another process does, for device_lane_test.cpp. `lane_user FOLDER DEVICE
// USE` takes a lease, prints a line, and holds the lease until its standard input ends. `lane_user
// FOLDER DEVICE turns N` times N times, a millisecond each, and prints a line a time.

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "backend/device_lane.h"
#include "base/process.h"

namespace {

using lathe::DeviceLane;

int hold(DeviceLane& lane, DeviceLane::Use use, bool with_child) {
  const auto lease = lane.take(use, DeviceLane::Grain::kBlock);
  const auto child = with_child ? lathe::Process::start({.argv = {"/bin/sleep", "60"}}, {})
                                : lathe::Result<lathe::Process>(lathe::Error{});
  fmt::print("held {}\n", child.ok() ? child->pid() : 0);
  std::fflush(stdout);
  return std::getchar() == EOF ? 0 : 1;
}

int take_turns(DeviceLane& lane, int count) {
  for (int i = 0; i < count; ++i) {
    const auto lease = lane.take(DeviceLane::Use::kTiming, DeviceLane::Grain::kBlock);
    fmt::print("turn\n");
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 64;
  DeviceLane lane(DeviceLane::Grain::kBlock, argv[2], std::string(argv[1]));
  if (!lane.unshared().empty()) return 2;
  const std::string_view what = argv[3];
  if (what == "turns" && argc == 5) return take_turns(lane, std::atoi(argv[4]));
  return hold(lane, what == "work" ? DeviceLane::Use::kWork : DeviceLane::Use::kTiming,
              what == "timing_with_child");
}
