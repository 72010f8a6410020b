#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lathe {

/// What a jailed process may still reach. Everything else is denied.
struct JailSpec {
  std::vector<std::string> readable;  ///< files and folders, for reading and executing
  std::vector<std::string> writable;  ///< folders, for everything
  std::vector<std::string> devices;   ///< device files, for reading, writing and ioctl
  std::uint64_t max_file_bytes = 64u << 20;
  std::uint64_t max_open_files = 256;
  std::uint64_t max_processes = 512;    ///< counted per user id by the kernel
  std::uint64_t max_address_bytes = 0;  ///< 0: no limit
  std::uint64_t max_cpu_seconds = 0;    ///< 0: no limit
};

/// One confinement feature of this machine.
struct SandboxFeature {
  std::string name;  ///< "user namespace", "network namespace", "Landlock", "seccomp", ...
  bool available = false;
  std::string detail;  ///< version, or why it is missing and what that costs
};

/// Moves the calling process into fresh user (unless root), mount, network, IPC, UTS and PID namespaces and,
/// as root, gives up all privileges. The PID namespace begins with the next fork. Single-threaded callers
/// only. NVIDIA's driver looks itself up under /proc by its number, so its processes keep the PID namespace.
enum class PidNamespace { kNew, kKept };
Status enter_namespaces(PidNamespace pids = PidNamespace::kNew);

/// Forbids what `spec` does not allow (Landlock, rlimits, no_new_privs). Irreversible; inherited by children.
Status restrict_files(const JailSpec& spec);
Status restrict_resources(const JailSpec& spec);

/// Denies the system calls that no compiler or loader needs: sockets, tracing, mounts, keys, bpf, io_uring,
/// perf, userfaultfd, namespaces. First stage; irreversible.
Status deny_dangerous_calls();

/// Leaves exactly futex, exit, exit_group and rt_sigreturn; anything else kills the process with SIGSYS.
/// prepare() costs tens of microseconds and is done once; apply() is one system call.
class LockDown {
 public:
  static Result<LockDown> prepare();
  Status apply() const;

 private:
  std::vector<std::uint64_t> program_;  ///< sock_filter instructions
};

/// Tries every feature in a forked child; never changes the caller.
std::vector<SandboxFeature> probe_sandbox();

}  // namespace lathe
