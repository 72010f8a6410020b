#include "backend/cuda/runner/disassemble_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "backend/compile_job.h"
#include "sandbox/jail.h"
#include "sandbox/memfd.h"

namespace lathe::cuda {
namespace {

constexpr off_t kMaxTextBytes = 32 << 20;
constexpr int kCubinFd = 3;

[[noreturn]] void disassemble_in_jail(const std::string& program, int cubin, int text) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  JailSpec spec;
  spec.readable = {program, "/usr/lib", "/lib", "/lib64", "/etc/ld.so.cache"};
  spec.max_file_bytes = static_cast<std::uint64_t>(kMaxTextBytes);
  spec.max_address_bytes = std::uint64_t{4} << 30;
  spec.max_cpu_seconds = 10;
  const bool ready = ::dup2(cubin, kCubinFd) == kCubinFd && ::dup2(text, STDOUT_FILENO) == STDOUT_FILENO;
  ::close_range(kCubinFd + 1, ~0u, CLOSE_RANGE_CLOEXEC);
  if (!ready || !restrict_resources(spec).ok() || !restrict_files(spec).ok() || !deny_dangerous_calls().ok())
    ::_exit(126);
  const std::string path = "/proc/self/fd/" + std::to_string(kCubinFd);
  const char* const argv[] = {program.c_str(), "-c", path.c_str(), nullptr};
  const char* const environment[] = {"LC_ALL=C", nullptr};
  ::execve(program.c_str(), const_cast<char* const*>(argv), const_cast<char* const*>(environment));
  ::_exit(127);
}

/// The child's wait status; -1 if it was killed at the deadline, or because the broker is gone.
int wait_until(pid_t child, double timeout_seconds, const Channel& broker) {
  const UniqueFd child_fd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd waiting[] = {{child_fd.get(), POLLIN, 0}, {broker.fd(), 0, 0}};
  ::poll(waiting, 2, static_cast<int>(timeout_seconds * 1000));
  ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return waiting[0].revents ? status : -1;
}

Status disassemble(const Channel& channel, const std::string& program, const protocol::CompileJob& job) {
  LATHE_TRY(const UniqueFd cubin, make_sealed_memfd("cubin", job.source));
  const UniqueFd text(::memfd_create("sass", MFD_CLOEXEC));
  if (!text.valid()) return errno_error("cannot make memory for a disassembly");
  const pid_t child = ::fork();
  if (child < 0) return errno_error("cannot fork a disassembly");
  if (child == 0) disassemble_in_jail(program, cubin.get(), text.get());
  const int status = wait_until(child, job.timeout_seconds, channel);
  protocol::CompileReply reply;
  reply.ok = status == 0;
  reply.timed_out = status == -1;
  if (!reply.ok) reply.log = "status " + std::to_string(status);
  if (!reply.ok) return channel.send(protocol::encode(reply));
  const off_t size = std::min(::lseek(text.get(), 0, SEEK_END), kMaxTextBytes);
  std::string bytes(static_cast<std::size_t>(std::max<off_t>(size, 0)), '\0');
  const ssize_t got = ::pread(text.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  LATHE_TRY(const UniqueFd object, make_sealed_memfd("sass", bytes));
  return channel.send(protocol::encode(reply), {object.get()});
}

}  // namespace

void serve_disassembly(const Channel& channel, const std::string& program) {
  for (;;) {
    auto frame = channel.receive(-1);
    if (!frame.ok() || frame->fds.size() != 1) return;
    const off_t size = ::lseek(frame->fds[0].get(), 0, SEEK_END);
    const auto bytes = map_shared(frame->fds[0], static_cast<std::size_t>(size), false);
    if (!bytes.ok()) return;
    const auto job =
        protocol::decode_compile_job({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
    if (!job.ok() || !disassemble(channel, program, *job).ok()) return;
  }
}

}  // namespace lathe::cuda
