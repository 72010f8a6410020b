// lathe-host-runner JAIL PYTHON WORK SCRIPT LIBRARY [VISIBLE...]: confines itself, then becomes a
// Python interpreter that runs SCRIPT, a zygote of the HOST tier. Started by the broker; descriptor
// 3 is the channel.

#include <unistd.h>

#include <string>
#include <vector>

#include "sandbox/jail.h"
#include "sandbox/process.h"

namespace lathe {
namespace {

struct Request {
  JailKind jail = JailKind::kFull;
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
  paths.insert(paths.end(), request.visible.begin(), request.visible.end());
  return paths;
}

Status confine(const Request& request) {
  JailSpec spec;
  spec.readable = readable(request);
  spec.writable = {request.work, "/dev/null"};
  LATHE_CHECK_OK(restrict_resources(spec));
  LATHE_CHECK_OK(restrict_files(spec));
  return deny_dangerous_calls(OwnChildren::kReadable);
}

int become_python(const Request& request) {
  if (!confine(request).ok()) return 126;
  const char* const argv[] = {
      request.python.c_str(), "-I",   "-B", request.script.c_str(), request.library.c_str(),
      request.work.c_str(),   nullptr};
  // One thread until a candidate may have more: libraries that are loaded must not make any.
  const char* const environment[] = {
      "PATH=/usr/bin:/bin",     "HOME=/nonexistent", "LC_ALL=C.UTF-8", "OMP_NUM_THREADS=1",
      "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", nullptr};
  ::execve(request.python.c_str(), const_cast<char* const*>(argv), const_cast<char* const*>(environment));
  return 127;
}

int run_main(int argc, char** argv) {
  const auto jail = parse_jail_kind(argc > 1 ? argv[1] : "");
  if (argc < 6 || !jail.ok()) {
    constexpr char kUsage[] = "lathe-host-runner is started by lathe; it is not meant to be run by hand\n";
    return ::write(2, kUsage, sizeof kUsage - 1) < 0 ? 1 : 64;
  }
  const Request request{*jail, argv[2], argv[3], argv[4], argv[5], {argv + 6, argv + argc}};
  NamespaceSpec spec{.visible = readable(request)};
  spec.visible.insert(spec.visible.end(), {"/dev/null", request.work});
  return serve_in_namespaces([&] { return become_python(request); }, spec, request.jail);
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) { return lathe::run_main(argc, argv); }
