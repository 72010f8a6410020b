#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/fd.h"
#include "sandbox/jail.h"

namespace lathe {
namespace {

constexpr unsigned kNobody = 65534;
constexpr int kNamespaces = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;

Status write_text(const char* path, const std::string& text) {
  UniqueFd fd(::open(path, O_WRONLY | O_CLOEXEC));
  if (!fd.valid() || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return errno_error(std::string("cannot write ") + path,
                       "user namespaces must be permitted on this machine");
  return Ok{};
}

Status enter_as_user(int namespaces) {
  const auto uid = ::geteuid();
  const auto gid = ::getegid();
  if (::unshare(CLONE_NEWUSER | namespaces) != 0)
    return errno_error(
        "cannot enter a user namespace",
        "enable unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1), or run as root");
  LATHE_CHECK_OK(write_text("/proc/self/setgroups", "deny"));
  LATHE_CHECK_OK(
      write_text("/proc/self/uid_map", std::to_string(kNobody) + " " + std::to_string(uid) + " 1"));
  return write_text("/proc/self/gid_map", std::to_string(kNobody) + " " + std::to_string(gid) + " 1");
}

Status enter_as_root(int namespaces) {
  if (::unshare(namespaces) != 0)
    return errno_error("cannot enter namespaces", "the container must allow unshare(2)");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return errno_error("cannot make mounts private");
  if (::setgroups(0, nullptr) != 0 || ::setresgid(kNobody, kNobody, kNobody) != 0 ||
      ::setresuid(kNobody, kNobody, kNobody) != 0)
    return errno_error("cannot give up root");
  return Ok{};
}

Status limit(int resource, std::uint64_t value, const char* what) {
  rlimit both{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &both);
  both.rlim_cur = both.rlim_max = std::min<rlim_t>(value, both.rlim_max);  // it may only fall
  if (::setrlimit(static_cast<__rlimit_resource>(resource), &both) != 0)
    return errno_error(std::string("cannot limit ") + what);
  return Ok{};
}

}  // namespace

Status enter_namespaces(PidNamespace pids) {
  const int namespaces = kNamespaces | (pids == PidNamespace::kNew ? CLONE_NEWPID : 0);
  return ::geteuid() == 0 ? enter_as_root(namespaces) : enter_as_user(namespaces);
}

Status restrict_resources(const JailSpec& spec) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno_error("cannot set no_new_privs");
  LATHE_CHECK_OK(limit(RLIMIT_CORE, 0, "core dumps"));
  LATHE_CHECK_OK(limit(RLIMIT_FSIZE, spec.max_file_bytes, "file size"));
  LATHE_CHECK_OK(limit(RLIMIT_NOFILE, spec.max_open_files, "open files"));
  LATHE_CHECK_OK(limit(RLIMIT_NPROC, spec.max_processes, "processes"));
  if (spec.max_address_bytes) LATHE_CHECK_OK(limit(RLIMIT_AS, spec.max_address_bytes, "memory"));
  if (spec.max_cpu_seconds) LATHE_CHECK_OK(limit(RLIMIT_CPU, spec.max_cpu_seconds, "processor time"));
  return Ok{};
}

}  // namespace lathe
