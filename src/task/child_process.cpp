#include "task/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point deadline_after(double seconds) {
  return Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

Error timeout() { return {ErrorCode::kTimeout, "the child process did not finish in time"}; }

/// Waits until the socket is ready for `events`.
Status await(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return timeout();
    pollfd entry{fd, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
    if (ready > 0) return Ok{};
    if (ready < 0 && errno != EINTR) return errno_error("poll");
  }
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& argv,
                                         const std::string& stderr_path) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno_error("socketpair");
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, stderr_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  std::vector<std::string> copies = argv;
  std::vector<char*> pointers;
  for (std::string& argument : copies) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t pid = -1;
  errno = posix_spawnp(&pid, pointers[0], &actions, nullptr, pointers.data(), environ);
  const int failed = errno;
  posix_spawn_file_actions_destroy(&actions);
  errno = failed;
  if (failed != 0) return errno_error("cannot start " + argv[0]);
  return ChildProcess(pid, std::move(ours));
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Status ChildProcess::send(std::span<const std::byte> bytes, double timeout_seconds) {
  const Clock::time_point deadline = deadline_after(timeout_seconds);
  while (!bytes.empty()) {
    LATHE_CHECK_OK(await(socket_.get(), POLLOUT, deadline));
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EINTR && errno != EAGAIN) return errno_error("the child process has gone");
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return Ok{};
}

Status ChildProcess::end_input() {
  if (shutdown(socket_.get(), SHUT_WR) != 0) return errno_error("shutdown");
  return Ok{};
}

Status ChildProcess::receive(std::span<std::byte> bytes, double timeout_seconds) {
  const Clock::time_point deadline = deadline_after(timeout_seconds);
  while (!bytes.empty()) {
    LATHE_CHECK_OK(await(socket_.get(), POLLIN, deadline));
    const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) return Error{ErrorCode::kIo, "the child process ended before it gave its result"};
    if (got < 0 && errno != EINTR && errno != EAGAIN) return errno_error("the child process has gone");
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return Ok{};
}

Status ChildProcess::wait(double timeout_seconds) {
  const Clock::time_point deadline = deadline_after(timeout_seconds);
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      pid_ = -1;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Ok{};
      if (WIFSIGNALED(status)) return invalid(std::string("killed by ") + strsignal(WTERMSIG(status)));
      return invalid("exit code " + std::to_string(WEXITSTATUS(status)));
    }
    if (ended < 0 && errno != EINTR) return errno_error("waitpid");
    if (Clock::now() > deadline) return timeout();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace lathe
