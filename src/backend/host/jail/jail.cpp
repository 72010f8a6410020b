// liblathe_host_jail.so: what Python in the jail cannot do itself. It depends on the C library
// alone.
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/host/jail/desk.h"
#include "backend/host/jail/filter.h"
#include "backend/host/jail/futex.h"

namespace lathe::host {
namespace {

constexpr std::int64_t kStopNs = 2'000'000'000;  // for a child to stop, where the machine is busy

/// Where this thread runs. A copy made on another processor takes the outputs out of the cache of
/// the one that computes, and a module that writes to the same memory in its next call waits for
/// them.
class Place {
 public:
  Place(const int* timed, std::uint32_t count) {
    ::sched_getaffinity(0, sizeof usual_, &usual_);
    elsewhere_ = usual_;
    CPU_ZERO(&timed_);
    for (std::uint32_t i = 0; i < count; ++i) {
      CPU_CLR(timed[i], &elsewhere_);
      CPU_SET(timed[i], &timed_);
    }
    go_elsewhere();
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { go(usual_); }

  void go_to_timed() const { go(timed_); }
  void go_elsewhere() const { go(elsewhere_); }

 private:
  void go(const cpu_set_t& processors) const {
    if (CPU_COUNT(&processors) > 0) ::sched_setaffinity(0, sizeof processors, &processors);
  }
  cpu_set_t usual_{}, timed_{}, elsewhere_{};
};

/// Where a call's outputs go and how large they are, section after section.
struct OutputTable {
  const std::uint64_t *offsets, *sizes;
  std::uint32_t count;  ///< of a section's
};

/// Watches one child through its calls.
class Supervisor {
 public:
  Supervisor(Desk& desk, Control& control, pid_t child, int broker, const Place& place)
      : desk_(desk), control_(control), child_(child), broker_(broker), place_(place) {}

  Ending run(std::uint32_t calls, std::int64_t ready_ns, char* outputs, std::uint64_t stride,
             const OutputTable& table) {
    if (const Ending end = wait_for(control_.ready, 1, monotonic_ns() + ready_ns)) return end;
    if (const Ending end = stop()) return end;
    say(desk_.stopped, 1);
    for (std::uint32_t call = 1; call <= calls; ++call) {
      if (!await_broker(desk_.go, call)) return kKilled;
      if (desk_.go.load() == Desk::kEnd) return kKilled;
      const std::uint32_t section = desk_.section.load(), slot = desk_.slot.load();
      control_.section.store(section, std::memory_order_relaxed);
      const std::int64_t begin_ns = monotonic_ns();
      control_.go.store(call, std::memory_order_release);
      ::kill(child_, SIGCONT);
      if (const Ending end = wait_for(control_.done, call, 0)) return end;
      if (const Ending end = stop()) return end;
      desk_.run_ns.store(monotonic_ns() - begin_ns, std::memory_order_relaxed);
      say(desk_.stopped, call + 1);
      if (!await_broker(desk_.taken, call)) return kKilled;
      place_.go_to_timed();
      const bool copied = slot == Desk::kNowhere || copy(outputs + slot * stride, table, section);
      place_.go_elsewhere();
      if (!copied) return kBadOutput;
      say(desk_.copied, call);
    }
    return kAllCallsRun;
  }

 private:
  /// kRunning once the word has the value; the broker ends other waits.
  Ending wait_for(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t deadline_ns) {
    for (;;) {
      const std::uint32_t now = word.load(std::memory_order_acquire);
      if (now >= value) return kRunning;
      watch(word, now, spin_ns(), control_.hold.load(std::memory_order_relaxed) ? 50'000'000 : 2'000'000);
      if (has_died()) return kDied;
      if (desk_.go.load(std::memory_order_acquire) == Desk::kEnd || broker_has_ended()) return kKilled;
      if (deadline_ns > 0 && monotonic_ns() > deadline_ns) return kLate;
    }
  }

  /// False once the broker has ended: nobody would say that the child is to end.
  bool await_broker(std::atomic<std::uint32_t>& word, std::uint32_t call) const {
    while (word.load(std::memory_order_acquire) < call) {
      if (broker_has_ended()) return false;
      watch(word, call - 1, spin_ns(), 50'000'000);
    }
    return true;
  }

  std::int64_t spin_ns() const { return desk_.spin_ns.load(std::memory_order_relaxed); }

  /// It sends nothing during a block, so whatever comes is its end.
  bool broker_has_ended() const {
    pollfd channel{broker_, POLLIN, 0};
    return ::poll(&channel, 1, 0) > 0;
  }

  bool has_died() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  }

  /// All threads of the child have stopped when this returns kRunning.
  Ending stop() {
    ::kill(child_, SIGSTOP);
    const std::int64_t begin_ns = monotonic_ns(), deadline_ns = begin_ns + kStopNs;
    for (bool has_slept = false;;) {
      const bool patient = !has_slept && monotonic_ns() >= begin_ns + spin_ns();
      has_slept = has_slept || patient;
      siginfo_t info{};
      const int flags = WSTOPPED | WEXITED | WNOWAIT | (patient ? 0 : WNOHANG);
      if (::waitid(P_PID, static_cast<id_t>(child_), &info, flags) != 0) {
        if (errno == EINTR) continue;
        return kDied;
      }
      if (info.si_pid != 0 && info.si_code != CLD_STOPPED) return kDied;
      if (info.si_pid != 0) {
        ::waitid(P_PID, static_cast<id_t>(child_), &info, WSTOPPED | WNOHANG);  // takes what was looked at
        return kRunning;
      }
      if (monotonic_ns() > deadline_ns) return kNotStopped;
    }
  }

  bool copy(char* to, const OutputTable& table, std::uint32_t section) {
    if (control_.output_count.load() != table.count) return false;
    for (std::uint32_t i = 0; i < table.count; ++i) {
      const Control::Output output = control_.outputs[i];
      const std::uint64_t size = table.sizes[section * table.count + i];
      if (output.bytes != size || !read(to + table.offsets[section * table.count + i], output.address, size))
        return false;
    }
    return true;
  }

  bool read(char* to, std::uint64_t address, std::uint64_t bytes) const {
    while (bytes > 0) {
      const iovec here{to, bytes};
      const iovec there{reinterpret_cast<void*>(address), bytes};
      const ssize_t got = ::process_vm_readv(child_, &here, 1, &there, 1, 0);
      if (got <= 0) return false;
      to += got, address += static_cast<std::uint64_t>(got), bytes -= static_cast<std::uint64_t>(got);
    }
    return true;
  }

  Desk& desk_;
  Control& control_;
  pid_t child_;
  int broker_;  ///< the channel
  const Place& place_;
};

Control* g_control = nullptr;  // the signal handler has no other way to find it

constexpr std::uint64_t kReading =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kAllRights = (1ULL << 14) - 1;  // of Landlock's second version, which has renaming

/// What does not exist needs no rule.
int allow_beneath(int ruleset, const char* path, std::uint64_t rights) {
  const int fd = ::open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return 0;
  struct stat meta {};
  if (::fstat(fd, &meta) == 0 && !S_ISDIR(meta.st_mode))
    rights &= ~std::uint64_t{LANDLOCK_ACCESS_FS_READ_DIR};
  landlock_path_beneath_attr rule{};
  rule.allowed_access = rights;
  rule.parent_fd = fd;
  const long failed = ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  const int error = failed == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

void on_fault(int signal, siginfo_t* info, void*) {
  if (g_control) g_control->fault_address.store(reinterpret_cast<std::uint64_t>(info->si_addr));
  ::_exit(kExitFault + signal);
}

}  // namespace
}  // namespace lathe::host

using lathe::host::Control;
using lathe::host::Desk;

extern "C" {

/// For a zygote: lets the child run call by call as the desk says, copies each call's outputs to
/// `outputs` + slot * `stride` + offset; `offsets` and `sizes` are of `count` tensors of each
/// section. `timed` are the processors that the child has to
/// itself, if any, `broker` is the channel. Returns an Ending; the child is still to be killed and
/// reaped.
std::uint32_t lathe_host_supervise(void* desk, void* control, int child, std::uint32_t calls,
                                   std::int64_t ready_ns, void* outputs, std::uint64_t stride,
                                   const std::uint64_t* offsets, const std::uint64_t* sizes,
                                   std::uint32_t count, const int* timed, std::uint32_t timed_count,
                                   int broker) {
  auto& shared = *static_cast<Desk*>(desk);
  const lathe::host::Place place(timed, timed_count);
  lathe::host::Supervisor supervisor(shared, *static_cast<Control*>(control), child, broker, place);
  const std::uint32_t ending =
      supervisor.run(calls, ready_ns, static_cast<char*>(outputs), stride, {offsets, sizes, count});
  lathe::host::say(shared.ended, ending);
  return ending;
}

/// For a zygote: what children must not inherit.
int lathe_host_keep(void* memory, std::uint64_t bytes) { return ::madvise(memory, bytes, MADV_DONTFORK); }

/// For a child, before it handles anything untrusted: a heap of which `bytes` are in memory and
/// that gives nothing back to the system, so that no call pays for pages; `poison` fills what is
/// allocated, 0 does not.
void lathe_host_prepare_heap(int poison, std::uint64_t bytes) {
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, 0x7fffffff);
  ::mallopt(M_TOP_PAD, 16 << 20);
  ::mallopt(M_ARENA_MAX, 1);
  if (auto* const memory = static_cast<volatile char*>(::malloc(bytes))) {
    for (std::uint64_t at = 0; at < bytes; at += 4096) memory[at] = 0;
    ::free(const_cast<char*>(memory));
  }
  // What is allocated is filled with the complement, and 0 would fill nothing.
  if (poison != 0) ::mallopt(M_PERTURB, poison == 0xff ? 0x01 : poison ^ 0xff);
}

/// For a child that has all that costs time: waits until the broker lets candidate code come to it.
void lathe_host_hold(void* control) {
  auto& hold = static_cast<Control*>(control)->hold;
  while (const std::uint32_t held = hold.load(std::memory_order_acquire))
    lathe::host::nap(hold, held, 500'000'000);
}

/// For a child: the last thing before candidate code. Returns 0 or an errno.
/// `gpu`: see apply_filter().
int lathe_host_confine(void* control, int gpu) {
  lathe::host::g_control = static_cast<Control*>(control);
  struct sigaction action {};
  action.sa_sigaction = lathe::host::on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) ::sigaction(signal, &action, nullptr);
  return lathe::host::apply_filter(gpu != 0 ? lathe::host::Accelerator::kGpu
                                            : lathe::host::Accelerator::kNone);
}

/// For a child on a GPU, before lathe_host_confine(): of all files it may read those beneath
/// `readable`, write to `devices`, and do as it likes below the folder `scratch`, which ends with
/// it. Lists end with a null. Returns 0 or an errno.
int lathe_host_restrict(const char* const* readable, const char* const* devices, const char* scratch) {
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = lathe::host::kAllRights;
  const int ruleset = static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes.handled_access_fs, 0));
  if (ruleset < 0) return errno;
  int error = 0;
  for (; error == 0 && *readable != nullptr; ++readable)
    error = lathe::host::allow_beneath(ruleset, *readable, lathe::host::kReading);
  for (; error == 0 && *devices != nullptr; ++devices)
    error = lathe::host::allow_beneath(ruleset, *devices,
                                       LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
  if (error == 0) error = lathe::host::allow_beneath(ruleset, scratch, lathe::host::kAllRights);
  if (error == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) error = errno;
  if (error == 0 && ::syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) error = errno;
  ::close(ruleset);
  return error;
}

/// For a child: it has everything that a call needs, and inputs come to `window`.
void lathe_host_ready(void* control, const void* window) {
  auto& shared = *static_cast<Control*>(control);
  shared.window_address.store(reinterpret_cast<std::uint64_t>(window));
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  shared.switches_before.store(usage.ru_nivcsw);
  lathe::host::say(shared.ready, 1);
}

/// For a child: waits for its turn. It is stopped meanwhile.
void lathe_host_await(void* control, std::uint32_t call) {
  auto& shared = *static_cast<Control*>(control);
  for (int i = 0; shared.go.load(std::memory_order_acquire) < call; ++i)
    if (i % 64 == 63) ::syscall(SYS_sched_yield);
}

/// For a child in its turn: which section of its program the call is of.
std::uint32_t lathe_host_section(const void* control) {
  return static_cast<const Control*>(control)->section.load(std::memory_order_relaxed);
}

/// For a child that builds: asks the broker for what the control page's text says, for the
/// `number`th time.
void lathe_host_request(void* control, std::uint32_t number) {
  lathe::host::say(static_cast<Control*>(control)->done, number);
}
/// For a zygote: that has been answered.
void lathe_host_answer(void* control, std::uint32_t number) {
  lathe::host::say(static_cast<Control*>(control)->go, number);
}

/// For a process that runs the task's own module: sleeps until the broker asks for the answer
/// `number`. 0: it wants no more.
int lathe_host_doze(void* control, std::uint32_t number) {
  auto& shared = *static_cast<Control*>(control);
  for (;;) {
    const std::uint32_t asked = shared.go.load(std::memory_order_acquire);
    if (asked == lathe::host::Control::kEnd) return 0;
    if (asked >= number) return 1;
    lathe::host::nap(shared.go, asked, 500'000'000);
  }
}

/// For a child: its call has ended, and its outputs are where `outputs` says.
void lathe_host_publish(void* control, std::uint32_t call, const std::uint64_t* outputs,
                        std::uint32_t count) {
  auto& shared = *static_cast<Control*>(control);
  for (std::uint32_t i = 0; i < count && i < lathe::host::kMostTensors; ++i)
    shared.outputs[i] = {outputs[2 * i], outputs[2 * i + 1]};
  shared.output_count.store(count);
  lathe::host::say(shared.done, call);
}

}  // extern "C"
