// Lathe's own programs at the GPU, each in namespaces of its own: `compile` and `disassemble` serve
// jobs, `list` names the GPUs, `keep` owns the memory of workloads, `window` that which programs of
// the HOST tier see, `launch` runs one candidate, `grade` is the conformance suite's naive grader.
// The broker starts them and ends them by closing the channel.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include "backend/cuda/runner/compile_worker.h"
#include "backend/cuda/runner/device_list.h"
#include "backend/cuda/runner/disassemble_worker.h"
#include "backend/cuda/runner/keeper.h"
#include "backend/cuda/runner/launcher.h"
#include "backend/cuda/runner/naive_grade.h"
#include "backend/cuda/runner/window_server.h"
#include "sandbox/jail.h"
#include "sandbox/process.h"

namespace lathe::cuda {
namespace {

/// After the context is made: what a driver still opens is its own devices and libraries, and cuDNN
/// its parts, which lie beside it.
Status confine(const std::string& cudnn_path = {}) {
  JailSpec spec;
  spec.readable = {"/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/proc", "/sys"};
  std::error_code code;
  if (!cudnn_path.empty()) {
    const std::filesystem::path path = cudnn_path;
    spec.readable.push_back(path.parent_path().string());
    const auto target = std::filesystem::canonical(path, code);
    if (!code) spec.readable.push_back(target.parent_path().string());
  }
  for (std::filesystem::directory_iterator it("/dev", code), end; !code && it != end; it.increment(code))
    if (it->path().filename().string().starts_with("nvidia")) spec.devices.push_back(it->path().string());
  spec.max_open_files = 4096;
  spec.max_file_bytes = std::uint64_t{64} << 30;
  LATHE_CHECK_OK(restrict_resources(spec));
  LATHE_CHECK_OK(restrict_files(spec));
  return deny_dangerous_calls();
}

Result<std::unique_ptr<Keeper>> open_keeper() {
  LATHE_TRY(const Driver* gpu, driver());
  LATHE_TRY(auto keeper, Keeper::open(*gpu));
  LATHE_CHECK_OK(confine());
  return keeper;
}

int serve_keep(const Channel& channel) {
  auto keeper = open_keeper();
  DeviceFacts facts;
  if (keeper.ok()) facts = (*keeper)->facts();
  if (!keeper.ok()) facts.error = keeper.error().to_string();
  if (channel.send(encode(facts)).ok() && keeper.ok()) (*keeper)->serve(channel);
  ::_exit(0);  // threads that serve further channels still use the driver
}

Result<std::unique_ptr<WindowServer>> open_windows() {
  LATHE_TRY(const Driver* gpu, driver());
  LATHE_TRY(auto server, WindowServer::open(*gpu));
  LATHE_CHECK_OK(confine());
  return server;
}

int serve_windows(const Channel& channel) {
  const auto server = open_windows();
  WindowDevice device;
  if (server.ok()) device = (*server)->device();
  if (!server.ok()) device.facts.error = server.error().to_string();
  if (channel.send(encode(device)).ok() && server.ok()) (*server)->serve(channel);
  ::_exit(0);
}

Result<Launcher> load(const LaunchDevice& device, const Frame& frame, const Channel& channel) {
  if (frame.fds.empty()) return Error{ErrorCode::kCorrupt, "a load frame came without its payload"};
  const off_t size = ::lseek(frame.fds[0].get(), 0, SEEK_END);
  LATHE_TRY(const Mapping payload, map_shared(frame.fds[0], static_cast<std::size_t>(size), false));
  LATHE_TRY(auto request, decode_load({reinterpret_cast<const char*>(payload.data()), payload.size()}));
  std::vector<UniqueFd> others;
  for (std::size_t i = 1; i < frame.fds.size(); ++i) others.emplace_back(::dup(frame.fds[i].get()));
  return Launcher::load(device, std::move(request), others, channel);
}

Result<LaunchDevice> open_launch_device(const std::string& vendor_library, const std::string& cudnn_library) {
  LATHE_TRY(LaunchDevice device, LaunchDevice::open(vendor_library, cudnn_library));
  LATHE_CHECK_OK(confine(device.cudnn_path));
  return device;
}

/// Before a load this can only be a probe.
bool serve_profile(const Result<LaunchDevice>& device, const Launcher* launcher, const Frame& frame,
                   const Channel& channel) {
  if (launcher) return launcher->serve_profile(channel, frame);
  ProfileAnswer answer;
  if (device.ok())
    answer = probe_counters(*device->driver);
  else
    answer.text = device.error().to_string();
  return channel.send(encode(answer)).ok();
}

int serve_launch(const Channel& channel, const std::string& vendor_library,
                 const std::string& cudnn_library) {
  auto device = open_launch_device(vendor_library, cudnn_library);
  std::map<std::uint32_t, Launcher> loads;
  Launcher* current = nullptr;
  for (;;) {
    const auto frame = channel.receive(-1);
    if (!frame.ok()) break;
    if (frame->bytes == kWarmFrame) {
      if (frame->fds.size() != 1) break;
      if (!device.ok()) continue;
      if (const Status warmed = device->warm(frame->fds[0]); !warmed.ok()) device = warmed.error();
      continue;
    }
    if (is_profile_job(frame->bytes)) {
      if (!serve_profile(device, current, *frame, channel)) break;
      continue;
    }
    if (!is_load_order(frame->bytes)) {
      if (!current || !current->serve_block(channel, frame->bytes)) break;
      continue;
    }
    const auto order = decode_load_order(frame->bytes);
    if (!order.ok()) break;
    for (const std::uint32_t number : order->unload) loads.erase(number);
    if (const auto known = loads.find(order->number); known != loads.end()) {
      current = &known->second;
      continue;
    }
    current = nullptr;
    auto loaded = device.ok() ? load(*device, *frame, channel) : Result<Launcher>(device.error());
    const LoadReply reply = loaded.ok() ? LoadReply{.ok = true} : protocol::refusal(loaded.error());
    if (loaded.ok()) current = &loads.emplace(order->number, *std::move(loaded)).first->second;
    if (!channel.send(encode(reply)).ok()) break;
  }
  ::_exit(0);  // the driver frees everything; unmapping it first would only take longer
}

template <class Serve>
int at_the_gpu(Serve serve) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds: the device idles while a launcher wakes
  // A block is one stream's graph: one queue does, and a context is made and freed in half the
  // time.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  if (const Status entered = enter_namespaces({.pids = PidNamespace::kKept}); !entered.ok())
    return fail_to_start(entered.error());
  close_standard_error();
  return serve();
}

int run_main(int argc, char** argv) {
  const Channel channel{UniqueFd(kHelperChannelFd)};
  ::fcntl(kHelperChannelFd, F_SETFD, FD_CLOEXEC);
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "list") return at_the_gpu([&] { return channel.send(encode(list_devices())).ok() ? 0 : 1; });
  if (role == "keep") return at_the_gpu([&] { return serve_keep(channel); });
  if (role == "window") return at_the_gpu([&] { return serve_windows(channel); });
  if (role == "launch" && argc == 4)
    return at_the_gpu([&] { return serve_launch(channel, argv[2], argv[3]); });
  if (role == "grade" && argc == 3)
    return at_the_gpu([&] { return serve_naive_grading(channel, argv[2]), 0; });
  if (role == "compile" && argc == 3) return serve_compiles(channel, argv[2]);
  if (role == "disassemble" && argc == 3)
    return serve_in_namespaces([&] {
      serve_disassembly(channel, argv[2]);
      return 0;
    });
  constexpr char kUsage[] = "lathe-cuda-runner is started by lathe; it is not meant to be run by hand\n";
  return ::write(2, kUsage, sizeof kUsage - 1) < 0 ? 1 : 64;
}

}  // namespace
}  // namespace lathe::cuda

int main(int argc, char** argv) { return lathe::cuda::run_main(argc, argv); }
