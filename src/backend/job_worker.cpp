#include "backend/job_worker.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sandbox/memfd.h"

namespace lathe {

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

int wait_for_job(pid_t child, pid_t victim, double timeout_seconds, const Channel& broker) {
  const UniqueFd child_fd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd waiting[] = {{child_fd.get(), POLLIN, 0}, {broker.fd(), 0, 0}};
  ::poll(waiting, 2, static_cast<int>(timeout_seconds * 1000));
  ::kill(victim, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return waiting[0].revents ? status : -1;
}

std::string read_back(int fd, off_t most) {
  const off_t size = std::min(::lseek(fd, 0, SEEK_END), most);
  std::string bytes(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), 0);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

}  // namespace lathe
