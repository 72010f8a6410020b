#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lathe {

/// What a jailed process may access. Everything else is denied.
struct JailSpec {
  std::vector<std::string> readable;  ///< files and folders, for reading and executing
  std::vector<std::string> writable;  ///< folders, with all rights
  std::vector<std::string> devices;   ///< device files, for reading, writing and ioctl
  std::uint64_t max_file_bytes = 64u << 20;
  std::uint64_t max_open_files = 256;
  /// Threads included. Where the machine's root starts Lathe, the kernel counts all jails of all
  /// its programs together, so the limit is far from what a program with hundreds of processors
  /// needs.
  std::uint64_t max_processes = std::uint64_t{1} << 15;
  std::uint64_t max_address_bytes = 0;  ///< 0: no limit
  std::uint64_t max_cpu_seconds = 0;    ///< 0: no limit
};

/// One confinement feature of this machine.
struct SandboxFeature {
  std::string name;  ///< "user namespace", "network namespace", "Landlock", "seccomp", ...
  bool available = false;
  std::string detail;        ///< version, or why it is missing, what that costs and what to do
  bool dispensable = false;  ///< a reduced jail does without
};

enum class PidNamespace { kNew, kKept };

/// How much the machine can confine. A reduced jail has Landlock and seccomp but no namespaces, for
/// containers that forbid these: processes and the names of files outside are visible, and what
/// outlives its process is not ended with it. Only on request; every verdict tells it.
enum class JailKind { kFull, kReduced };
/// "full", "reduced".
std::string_view name(JailKind kind);
Result<JailKind> parse_jail_kind(std::string_view name);

/// What the namespaces of a process are like.
struct NamespaceSpec {
  /// Processes that use NVIDIA's driver keep theirs, because it looks up its own process id under
  /// /proc.
  PidNamespace pids = PidNamespace::kNew;
  /// Absolute paths of files, folders and links; no other name exists for the process. Those that
  /// do not exist are left out. Empty: all names of the machine exist.
  std::vector<std::string> visible = {};
  /// More of these, mounted read-only: reading a file does not even change its time of access,
  /// which the next process could see.
  std::vector<std::string> readable = {};
  std::string scratch = {};  ///< a folder that gets memory of its own, of at most kScratchBytes
};
inline constexpr std::uint64_t kScratchBytes = std::uint64_t{256} << 20;

/// Moves the calling process into new mount, network, IPC, UTS and PID namespaces. Whoever lacks
/// CAP_SYS_ADMIN, root in a container too, takes a new user namespace for that; all privileges are
/// dropped. The PID namespace takes effect with the next fork. The caller must be single-threaded.
/// Errors: kUnavailable, with what permits it.
Status enter_namespaces(const NamespaceSpec& spec = {});

/// Without namespaces: makes the process nobody's where it may, and takes every capability from it.
Status drop_privileges();

/// Denies everything that `spec` does not allow (Landlock, rlimits, no_new_privs). Irreversible;
/// inherited by children.
Status restrict_files(const JailSpec& spec);
Status restrict_resources(const JailSpec& spec);

/// Denies system calls that no compiler or loader needs: sockets, tracing, mounts, keys, bpf,
/// io_uring, perf, userfaultfd, namespaces. Irreversible. The first of two filters; LockDown is the
/// second. Where its own children are to be readable, process_vm_readv stays.
enum class OwnChildren { kHidden, kReadable };
Status deny_dangerous_calls(OwnChildren children = OwnChildren::kHidden);

/// Allows all threads of the process only futex, sched_yield, exit, exit_group and rt_sigreturn;
/// any other system call kills the process with SIGSYS. prepare() takes tens of microseconds and is
/// called once; apply() is one system call, before which other threads must have done theirs.
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
