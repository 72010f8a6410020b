// lathe-host-runner JAIL DEVICE PYTHON WORK SCRIPT LIBRARY [VISIBLE...]: confines itself, then
// becomes a Python interpreter that runs SCRIPT, a zygote of the HOST tier whose children compute
// on DEVICE, cpu or gpu. Started by the broker; descriptor 3 is the channel.

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/jail.h"
#include "sandbox/process.h"

namespace lathe {
namespace {

struct Request {
  JailKind jail = JailKind::kFull;
  bool gpu = false;
  std::string python, work, script, library;
  std::vector<std::string> visible;
};

/// What torch reads when it is imported, and no more of the machine.
std::vector<std::string> readable(const Request& request) {
  std::vector<std::string> paths = {"/usr",
                                    "/lib",
                                    "/lib64",
                                    "/bin",
                                    "/etc/ld.so.cache",
                                    "/etc/alternatives",
                                    "/etc/python3.11",
                                    "/dev/urandom",
                                    "/proc/cpuinfo",
                                    "/proc/meminfo",
                                    "/sys/devices/system/cpu"};
  paths.push_back(request.script.substr(0, request.script.rfind('/')));
  paths.push_back(request.library);
  if (request.gpu) paths.insert(paths.end(), {"/sys", "/dev/nvidia-caps"});
  paths.insert(paths.end(), request.visible.begin(), request.visible.end());
  return paths;
}

std::vector<std::string> gpu_devices() {
  std::vector<std::string> devices;
  std::error_code code;
  for (std::filesystem::directory_iterator it("/dev", code), end; !code && it != end; it.increment(code))
    if (it->path().filename().string().starts_with("nvidia") && !it->is_directory(code))
      devices.push_back(it->path().string());
  return devices;
}

/// A GPU's driver looks its process up under /proc and asks for another service by a socket while
/// it starts. That happens in a zygote's child before candidate code comes to it; then the child's
/// own rules apply, which allow neither.
Status confine(const Request& request) {
  JailSpec spec;
  spec.readable = readable(request);
  spec.writable = {request.work, "/dev/null"};
  if (request.gpu) {
    spec.readable.emplace_back("/proc");
    spec.devices = gpu_devices();
    spec.devices.emplace_back("/proc");  // where a driver names its threads
    spec.max_open_files = 4096;
    spec.max_file_bytes = std::uint64_t{64}
                          << 30;  // of what a driver makes; the scratch folder has its own limit
  }
  LATHE_CHECK_OK(restrict_resources(spec));
  LATHE_CHECK_OK(restrict_files(spec));
  return request.gpu ? Status(Ok{}) : deny_dangerous_calls(OwnChildren::kReadable);
}

int become_python(const Request& request) {
  if (!confine(request).ok()) return 126;
  std::vector<std::string> arguments = {
      request.python, "-I", "-B", request.script, request.library, request.work, request.gpu ? "gpu" : "cpu"};
  if (request.gpu)
    for (std::string& path : readable(request)) arguments.push_back(std::move(path));
  // One thread until a candidate may have more: libraries that are loaded must not make any.
  std::vector<std::string> environment = {
      "PATH=/usr/bin:/bin", "HOME=/nonexistent",      "USER=nobody",       "LC_ALL=C.UTF-8",
      "OMP_NUM_THREADS=1",  "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", "CUDA_CACHE_DISABLE=1"};
  // Packages that torch imports where they are there look for one.
  environment.push_back("TMPDIR=" + request.work);
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::string_view(*entry).starts_with("CUDA_")) environment.emplace_back(*entry);
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (std::string& text : texts) list.push_back(text.data());
    list.push_back(nullptr);
    return list;
  };
  ::execve(request.python.c_str(), pointers(arguments).data(), pointers(environment).data());
  return 127;
}

int run_main(int argc, char** argv) {
  const auto jail = parse_jail_kind(argc > 1 ? argv[1] : "");
  const std::string_view device = argc > 2 ? argv[2] : "";
  if (argc < 7 || !jail.ok() || (device != "cpu" && device != "gpu")) {
    constexpr char kUsage[] = "lathe-host-runner is started by lathe; it is not meant to be run by hand\n";
    return ::write(2, kUsage, sizeof kUsage - 1) < 0 ? 1 : 64;
  }
  const Request request{*jail, device == "gpu", argv[3], argv[4], argv[5], argv[6], {argv + 7, argv + argc}};
  NamespaceSpec spec;
  if (request.gpu) {
    spec.pids = PidNamespace::kKept;
    spec.scratch = request.work + "/scratch";
    ::mkdir(spec.scratch.c_str(), 0777);
    ::chmod(spec.scratch.c_str(), 0777);  // whatever the mask for new files is
  } else {
    spec.visible = {"/dev/null", request.work};
    spec.readable = readable(request);
  }
  return serve_in_namespaces([&] { return become_python(request); }, spec, request.jail);
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) { return lathe::run_main(argc, argv); }
