#include "backend/cuda/runner/compile_worker.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "backend/compile_job.h"
#include "backend/cuda/runner/nvrtc.h"
#include "base/clock.h"
#include "sandbox/jail.h"
#include "sandbox/memfd.h"
#include "sandbox/process.h"

namespace lathe::cuda {
namespace {

constexpr std::size_t kMaxLogBytes = 16 * 1024;
constexpr off_t kMaxCubinBytes = 64 << 20;
// There are as many workers as processors.
constexpr std::uint64_t kMaxCompilerBytes = std::uint64_t{2} << 30;
constexpr int kNiceness = 5;  // whoever feeds the device goes first
constexpr int kCompiled = 0, kRefused = 1, kNotJailed = 2;

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

/// NVRTC's libraries, and in some builds a sanitizer's shadow memory.
std::uint64_t mapped_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

struct Compiler {
  Nvrtc nvrtc;
  std::string include_folder;
  std::uint64_t mapped_bytes = 0;  ///< before it compiles anything
};

[[noreturn]] void compile_in_jail(const Compiler& compiler, const protocol::CompileJob& job, int log,
                                  int cubin) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  JailSpec spec;
  spec.readable = {compiler.include_folder};
  spec.max_file_bytes = static_cast<std::uint64_t>(kMaxCubinBytes);
  spec.max_address_bytes = compiler.mapped_bytes + kMaxCompilerBytes;
  spec.max_cpu_seconds = static_cast<std::uint64_t>(job.timeout_seconds) + 1;
  if (!restrict_resources(spec).ok() || !restrict_files(spec).ok() || !deny_dangerous_calls().ok())
    ::_exit(kNotJailed);
  const Compiled compiled = compiler.nvrtc.compile(job.source, job.flags);
  write_all(log, std::string_view(compiled.log).substr(0, kMaxLogBytes));
  const bool kept = compiled.ok && write_all(cubin, compiled.cubin);
  ::_exit(kept ? kCompiled : kRefused);
}

Status compile(const Channel& channel, const Compiler& compiler, const protocol::CompileJob& job) {
  const auto begin_ns = steady_clock().now_ns();
  if (job.source.empty()) {
    protocol::CompileReply reply;
    reply.log = compiler.nvrtc.version();
    return channel.send(protocol::encode(reply));
  }
  const UniqueFd log(::memfd_create("log", MFD_CLOEXEC)), cubin(::memfd_create("cubin", MFD_CLOEXEC));
  if (!log.valid() || !cubin.valid()) return errno_error("cannot create memory for a compilation");
  const pid_t child = ::fork();
  if (child < 0) return errno_error("cannot fork a compilation");
  if (child == 0) compile_in_jail(compiler, job, log.get(), cubin.get());
  const int status = wait_for_job(child, child, job.timeout_seconds, channel);
  protocol::CompileReply reply;
  reply.timed_out = status == -1;
  reply.ok = status == 0;
  reply.infra = status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == kNotJailed;
  reply.log = reply.infra ? "cannot create the compile jail" : read_back(log.get(), kMaxLogBytes);
  if (status != -1 && WIFSIGNALED(status))
    reply.log += fmt::format("\nthe compiler died of this source (it may take {} s and {} GiB)",
                             job.timeout_seconds, kMaxCompilerBytes >> 30);
  reply.seconds = seconds_since(begin_ns);
  if (!reply.ok) return channel.send(protocol::encode(reply));
  LATHE_TRY(const UniqueFd object, make_sealed_memfd("object", read_back(cubin.get(), kMaxCubinBytes)));
  return channel.send(protocol::encode(reply), {object.get()});
}

}  // namespace

int serve_compiles(const Channel& channel, const std::string& include_folder) {
  (void)::nice(kNiceness);
  auto nvrtc = Nvrtc::open();
  if (!nvrtc.ok()) return 2;
  // The first compilation costs ten times as much, and loads libraries from wherever they are
  // installed: children inherit both.
  (void)nvrtc->compile("extern \"C\" __global__ void f() {}", {"-arch=sm_80"});
  const Compiler compiler{*std::move(nvrtc), include_folder, mapped_bytes()};
  const auto serve = [&] {
    serve_jobs(channel, [&](const protocol::CompileJob& job) { return compile(channel, compiler, job); });
    return 0;
  };
  return serve_in_namespaces(serve, {.visible = {"/dev/null", include_folder}});
}

}  // namespace lathe::cuda
