#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/fd.h"
#include "sandbox/jail.h"

namespace lathe {
namespace {

struct ReleaseFilter {
  void operator()(void* filter) const { seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, ReleaseFilter>;

constexpr std::array kDangerous = {"socket",
                                   "socketpair",
                                   "connect",
                                   "bind",
                                   "listen",
                                   "accept",
                                   "accept4",
                                   "ptrace",
                                   "mount",
                                   "umount2",
                                   "pivot_root",
                                   "chroot",
                                   "setns",
                                   "unshare",
                                   "keyctl",
                                   "add_key",
                                   "request_key",
                                   "bpf",
                                   "perf_event_open",
                                   "userfaultfd",
                                   "io_uring_setup",
                                   "kexec_load",
                                   "reboot",
                                   "init_module",
                                   "swapon",
                                   "acct",
                                   "process_vm_readv",
                                   "process_vm_writev",
                                   "pidfd_getfd",
                                   "open_by_handle_at",
                                   "fsopen",
                                   "move_mount",
                                   "open_tree",
                                   "personality"};
// What threads need to wait for each other, and to end.
constexpr std::array kAfterLockDown = {"futex", "sched_yield", "exit", "exit_group", "rt_sigreturn"};

Error filter_error(const char* what) {
  return {ErrorCode::kUnavailable, std::string("cannot make a seccomp filter: ") + what,
          "the kernel needs CONFIG_SECCOMP_FILTER"};
}

}  // namespace

Status deny_dangerous_calls(OwnChildren children) {
  const Filter filter(seccomp_init(SCMP_ACT_ALLOW));
  if (!filter) return filter_error("init");
  for (const char* name : kDangerous) {
    if (children == OwnChildren::kReadable && std::string_view(name) == "process_vm_readv") continue;
    const int number = seccomp_syscall_resolve_name(name);
    if (number >= 0 && seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), number, 0) != 0)
      return filter_error(name);
  }
  if (seccomp_load(filter.get()) != 0) return filter_error("load");
  return Ok{};
}

Result<LockDown> LockDown::prepare() {
  const Filter filter(seccomp_init(SCMP_ACT_KILL_PROCESS));
  if (!filter) return filter_error("init");
  for (const char* name : kAfterLockDown)
    if (seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(name), 0) != 0)
      return filter_error(name);
  UniqueFd file(::memfd_create("filter", MFD_CLOEXEC));
  if (!file.valid() || seccomp_export_bpf(filter.get(), file.get()) != 0) return filter_error("export");
  const off_t bytes = ::lseek(file.get(), 0, SEEK_END);
  LockDown lock_down;
  static_assert(sizeof(sock_filter) == sizeof(std::uint64_t));
  lock_down.program_.resize(static_cast<std::size_t>(bytes) / sizeof(sock_filter));
  if (::pread(file.get(), lock_down.program_.data(), static_cast<std::size_t>(bytes), 0) != bytes)
    return filter_error("read");
  return lock_down;
}

Status LockDown::apply() const {
  sock_fprog program{};
  program.len = static_cast<unsigned short>(program_.size());
  program.filter = reinterpret_cast<sock_filter*>(const_cast<std::uint64_t*>(program_.data()));
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno_error("cannot set no_new_privs");
  constexpr unsigned kFlags = SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_TSYNC;
  const long outcome = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kFlags, &program);
  if (outcome < 0) return errno_error("cannot lock down system calls");
  if (outcome > 0) return Error{ErrorCode::kUnavailable, "cannot lock down every thread's system calls"};
  return Ok{};
}

}  // namespace lathe
