#include "backend/cuda/runner/disassemble_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

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

Status disassemble(const Channel& channel, const std::string& program, const protocol::CompileJob& job) {
  LATHE_TRY(const UniqueFd cubin, make_sealed_memfd("cubin", job.source));
  const UniqueFd text(::memfd_create("sass", MFD_CLOEXEC));
  if (!text.valid()) return errno_error("cannot create memory for a disassembly");
  const pid_t child = ::fork();
  if (child < 0) return errno_error("cannot fork a disassembly");
  if (child == 0) disassemble_in_jail(program, cubin.get(), text.get());
  const int status = wait_for_job(child, child, job.timeout_seconds, channel);
  protocol::CompileReply reply;
  reply.ok = status == 0;
  reply.timed_out = status == -1;
  if (!reply.ok) reply.log = "status " + std::to_string(status);
  if (!reply.ok) return channel.send(protocol::encode(reply));
  LATHE_TRY(const UniqueFd object, make_sealed_memfd("sass", read_back(text.get(), kMaxTextBytes)));
  return channel.send(protocol::encode(reply), {object.get()});
}

}  // namespace

void serve_disassembly(const Channel& channel, const std::string& program) {
  serve_jobs(channel, [&](const protocol::CompileJob& job) { return disassemble(channel, program, job); });
}

}  // namespace lathe::cuda
