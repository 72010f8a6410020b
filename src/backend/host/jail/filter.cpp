#include "backend/host/jail/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lathe::host {
namespace {

constexpr unsigned kAllowed[] = {
    // memory
    SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_brk, SYS_get_mempolicy, SYS_membarrier,
    // threads, which end with the process
    SYS_futex, SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_set_tid_address, SYS_sched_yield,
    SYS_sched_getaffinity, SYS_sched_getparam, SYS_sched_getscheduler, SYS_getcpu, SYS_exit, SYS_exit_group,
    SYS_arch_prctl,
    // signals to itself
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_rt_sigpending,
    SYS_restart_syscall,
    // reading
    SYS_read, SYS_pread64, SYS_readv, SYS_preadv, SYS_lseek, SYS_close, SYS_close_range, SYS_fstat, SYS_stat,
    SYS_lstat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_fstatfs, SYS_access, SYS_faccessat, SYS_faccessat2,
    SYS_readlink, SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_dup, SYS_poll, SYS_ppoll, SYS_select,
    SYS_pselect6, SYS_write, SYS_writev,
    // facts
    SYS_getpid, SYS_getppid, SYS_gettid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrusage,
    SYS_getrlimit, SYS_sysinfo, SYS_uname, SYS_times, SYS_getrandom, SYS_umask,
    // time
    SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday, SYS_time, SYS_nanosleep, SYS_clock_nanosleep};

// What a GPU's driver does in threads of its own and for a program's further memory and streams,
// and Triton in its cache.
constexpr unsigned kForDriver[] = {SYS_eventfd2,
                                   SYS_pipe2,
                                   SYS_epoll_create1,
                                   SYS_epoll_ctl,
                                   SYS_epoll_wait,
                                   SYS_epoll_pwait,
                                   SYS_mbind,
                                   SYS_set_mempolicy,
                                   SYS_sched_get_priority_max,
                                   SYS_sched_get_priority_min,
                                   SYS_mlock,
                                   SYS_munlock,
                                   SYS_mkdir,
                                   SYS_mkdirat,
                                   SYS_rmdir,
                                   SYS_unlink,
                                   SYS_unlinkat,
                                   SYS_rename,
                                   SYS_renameat,
                                   SYS_renameat2,
                                   SYS_ftruncate,
                                   SYS_fsync,
                                   SYS_flock};

constexpr unsigned kDeadly[] = {SYS_fork,
                                SYS_vfork,
                                SYS_execve,
                                SYS_execveat,
                                SYS_ptrace,
                                SYS_process_vm_readv,
                                SYS_process_vm_writev,
                                SYS_socket,
                                SYS_socketpair,
                                SYS_connect,
                                SYS_bind,
                                SYS_listen,
                                SYS_accept,
                                SYS_accept4,
                                SYS_sendto,
                                SYS_sendmsg,
                                SYS_kill,
                                SYS_tkill,
                                SYS_rt_sigqueueinfo,
                                SYS_rt_tgsigqueueinfo,
                                SYS_pidfd_send_signal,
                                SYS_pidfd_open,
                                SYS_pidfd_getfd,
                                SYS_timer_create,
                                SYS_setitimer,
                                SYS_alarm,
                                SYS_mq_open,
                                SYS_mq_notify,
                                SYS_io_setup,
                                SYS_io_uring_setup,
                                SYS_perf_event_open,
                                SYS_bpf,
                                SYS_userfaultfd,
                                SYS_setsid,
                                SYS_setpgid,
                                SYS_unshare,
                                SYS_setns,
                                SYS_mount,
                                SYS_keyctl,
                                SYS_add_key,
                                SYS_request_key,
                                SYS_personality};

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr uint32_t kKill = SECCOMP_RET_KILL_PROCESS;
constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

/// A filter under construction.
class Program {
 public:
  void add(uint16_t code, uint32_t k, uint8_t jt = 0, uint8_t jf = 0) { steps_[size_++] = {code, jt, jf, k}; }
  void give(uint32_t action) { add(BPF_RET | BPF_K, action); }
  void load(unsigned offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
  /// The next step runs where the loaded word is `value`, else it is skipped.
  void if_equal(uint32_t value) { add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1); }
  void on_call(unsigned number, uint32_t action) {
    if_equal(number);
    give(action);
  }
  /// Judges a call by one of its arguments, low word: `action` where it is in `values`, else
  /// `otherwise`.
  template <unsigned long N>
  void on_argument(unsigned number, unsigned argument, const uint32_t (&values)[N], uint32_t action,
                   uint32_t otherwise) {
    add(BPF_JMP | BPF_JEQ | BPF_K, number, 0, static_cast<uint8_t>(2 * N + 2));
    load(word(argument));
    for (const uint32_t value : values) on_call(value, action);
    give(otherwise);
  }
  /// `action` where the argument's bits of `mask` are one of `values`, else `otherwise`.
  template <unsigned long N>
  void on_masked(unsigned number, unsigned argument, uint32_t mask, const uint32_t (&values)[N],
                 uint32_t action, uint32_t otherwise) {
    add(BPF_JMP | BPF_JEQ | BPF_K, number, 0, static_cast<uint8_t>(2 * N + 3));
    load(word(argument));
    add(BPF_ALU | BPF_AND | BPF_K, mask);
    for (const uint32_t value : values) on_call(value, action);
    give(otherwise);
  }
  /// `action` where it is in `values`; else later rules judge the call.
  template <unsigned long N>
  void on_values(unsigned number, unsigned argument, const uint32_t (&values)[N], uint32_t action) {
    add(BPF_JMP | BPF_JEQ | BPF_K, number, 0, static_cast<uint8_t>(2 * N + 2));
    load(word(argument));
    for (const uint32_t value : values) on_call(value, action);
    load(offsetof(seccomp_data, nr));
  }
  /// `action` where any of `bits` is set in the argument, else `otherwise`.
  void on_bits(unsigned number, unsigned argument, uint32_t bits, uint32_t action, uint32_t otherwise) {
    add(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4);
    load(word(argument));
    add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    give(action);
    give(otherwise);
  }
  /// `action` where two arguments, low words, have these values, else `otherwise`.
  void on_both(unsigned number, unsigned first, uint32_t value, unsigned second, uint32_t other,
               uint32_t action, uint32_t otherwise) {
    add(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 6);
    load(word(first));
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 3);
    load(word(second));
    add(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1);
    give(action);
    give(otherwise);
  }
  static unsigned word(unsigned argument) {
    return static_cast<unsigned>(offsetof(seccomp_data, args)) + 8 * argument;
  }
  sock_fprog finished() { return {static_cast<unsigned short>(size_), steps_}; }

 private:
  sock_filter steps_[512];
  unsigned size_ = 0;
};

}  // namespace

int apply_filter(Accelerator accelerator) {
  const bool gpu = accelerator == Accelerator::kGpu;
  Program program;
  program.load(offsetof(seccomp_data, arch));
  program.add(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
  program.give(kKill);
  program.load(offsetof(seccomp_data, nr));
  program.add(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);  // the x32 calls
  program.give(kKill);
  for (const unsigned number : kAllowed) program.on_call(number, kAllow);
  for (const unsigned number : kDeadly) program.on_call(number, kKill);
  if (gpu)
    for (const unsigned number : kForDriver) program.on_call(number, kAllow);
  program.on_call(SYS_clone3, kUnknown);  // its flags lie in memory; libraries then use clone
  program.on_call(SYS_openat2, kUnknown);
  program.on_bits(SYS_clone, 0, CLONE_THREAD, kAllow, kKill);
  // Other processes see locks, those of the same candidate too.
  constexpr uint32_t kLocks[] = {F_GETLK, F_SETLK, F_SETLKW, 36 /* F_OFD_GETLK */, 37, 38};
  program.on_values(SYS_fcntl, 1, kLocks, kRefuse);
  constexpr uint32_t kWriting = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY);
  program.on_bits(SYS_open, 1, kWriting, gpu ? kAllow : kRefuse, kAllow);
  program.on_bits(SYS_openat, 2, kWriting, gpu ? kAllow : kRefuse, kAllow);
  constexpr uint32_t kSendSignals[] = {F_SETOWN, F_SETSIG, 15 /* F_SETOWN_EX */, F_SETLEASE, F_NOTIFY};
  program.on_argument(SYS_fcntl, 1, kSendSignals, kKill, kAllow);
  constexpr uint32_t kHarmlessIoctls[] = {0x5401 /* TCGETS */, 0x541b /* FIONREAD */, 0x5451 /* FIOCLEX */};
  // Of NVIDIA's devices: type 'F', and numbers without a type for its unified memory.
  constexpr uint32_t kDriversIoctls[] = {0x4600, 0};
  if (gpu)
    program.on_masked(SYS_ioctl, 1, 0xff00, kDriversIoctls, kAllow, kRefuse);
  else
    program.on_argument(SYS_ioctl, 1, kHarmlessIoctls, kAllow, kRefuse);
  constexpr uint32_t kHarmlessPrctls[] = {PR_SET_NAME, PR_GET_NAME, 0x53564d41 /* PR_SET_VMA */};
  program.on_argument(SYS_prctl, 0, kHarmlessPrctls, kAllow, kRefuse);
  // As abort() does; not its parent.
  program.on_both(SYS_tgkill, 0, static_cast<uint32_t>(::getpid()), 2, SIGABRT, kAllow, kKill);
  constexpr uint32_t kNull[] = {
      0};  // a limit may be asked for, not changed; no pointer has a low word of zero
  program.on_argument(SYS_prlimit64, 2, kNull, kAllow, kRefuse);
  program.give(kRefuse);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  const sock_fprog finished = program.finished();
  const long failed = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &finished);
  return failed == 0 ? 0 : failed > 0 ? EBUSY : errno;
}

}  // namespace lathe::host
