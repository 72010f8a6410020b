#include "backend/compile_job.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sandbox/memfd.h"
#include "sandbox/wire.h"

namespace lathe {
namespace protocol {
namespace {

constexpr std::size_t kMaxText = 4u << 20;

}  // namespace

std::string encode(const CompileJob& job) {
  WireWriter out;
  out.text(job.source).put(job.timeout_seconds).text(job.cuda.nvcc).text(job.cuda.source);
  for (const auto* flags : {&job.flags, &job.cuda.flags}) {
    out.put(static_cast<std::uint32_t>(flags->size()));
    for (const std::string& flag : *flags) out.text(flag);
  }
  return out.take();
}

Result<CompileJob> decode_compile_job(std::string_view bytes) {
  WireReader in(bytes);
  CompileJob job;
  job.source = in.text(kMaxText);
  job.timeout_seconds = in.get<double>();
  job.cuda.nvcc = in.text();
  job.cuda.source = in.text(kMaxText);
  for (auto* flags : {&job.flags, &job.cuda.flags}) {
    flags->resize(in.count(4));
    for (std::string& flag : *flags) flag = in.text();
  }
  if (!in.finished()) return Error{ErrorCode::kCorrupt, "a damaged frame: compile job"};
  return job;
}

std::string encode(const CompileReply& reply) {
  WireWriter out;
  for (const bool flag : {reply.ok, reply.timed_out, reply.infra}) out.put(static_cast<std::uint8_t>(flag));
  return out.text(reply.log).put(reply.seconds).take();
}

Result<CompileReply> decode_compile_reply(std::string_view bytes) {
  WireReader in(bytes);
  CompileReply reply;
  reply.ok = in.flag();
  reply.timed_out = in.flag();
  reply.infra = in.flag();
  reply.log = in.text();
  reply.seconds = in.get<double>();
  if (!in.finished()) return Error{ErrorCode::kCorrupt, "a damaged frame: compile reply"};
  return reply;
}

}  // namespace protocol

void serve_jobs(const Channel& broker, const std::function<Status(const protocol::CompileJob&)>& answer) {
  for (;;) {
    const auto frame = broker.receive(-1);
    if (!frame.ok() || frame->fds.size() != 1) return;
    const off_t size = ::lseek(frame->fds[0].get(), 0, SEEK_END);
    const auto bytes = map_shared(frame->fds[0], static_cast<std::size_t>(size), false);
    if (!bytes.ok()) return;
    const auto job =
        protocol::decode_compile_job({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
    if (!job.ok() || !answer(*job).ok()) return;
  }
}

int wait_for_job(pid_t child, pid_t victim, double cpu_seconds, const Channel& broker) {
  const UniqueFd child_fd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd waiting[] = {{child_fd.get(), POLLIN, 0}, {broker.fd(), 0, 0}};
  ::poll(waiting, 2, static_cast<int>(kMostWait * cpu_seconds * 1000));
  ::kill(victim, SIGKILL);
  int status = 0;
  rusage used{};
  while (::wait4(child, &status, 0, &used) < 0 && errno == EINTR) {
  }
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  const bool used_up = status != 0 && seconds(used.ru_utime) + seconds(used.ru_stime) >= cpu_seconds;
  return waiting[0].revents && !used_up ? status : -1;
}

std::string read_back(int fd, off_t most) {
  const off_t size = std::min(::lseek(fd, 0, SEEK_END), most);
  std::string bytes(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), 0);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

}  // namespace lathe
