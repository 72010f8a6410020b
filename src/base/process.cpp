#include "base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/guard.h"

namespace lathe {
namespace {

constexpr std::int64_t kCancelMs = 50;  // between two looks at whether it was
constexpr std::size_t kMaxErrorBytes = 64 << 10;
constexpr int kFirstSpareFd = 64;  // above every descriptor that a child is given

/// The C form of a list of strings, which must outlive it.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

class SpawnActions {
 public:
  SpawnActions() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  Status set(const Command& command, std::span<const Process::Descriptor> descriptors) {
    for (int stream = 0; stream <= 2; ++stream)
      posix_spawn_file_actions_addopen(&actions_, stream, "/dev/null", stream == 0 ? O_RDONLY : O_WRONLY, 0);
    int highest = 2;
    for (const Process::Descriptor& descriptor : descriptors) {
      // From a high number, so that no earlier action has replaced it.
      copies_.emplace_back(::fcntl(descriptor.here, F_DUPFD_CLOEXEC, kFirstSpareFd));
      if (!copies_.back().valid())
        return errno_error("cannot pass a descriptor on", "raise the limit on open files: ulimit -n");
      posix_spawn_file_actions_adddup2(&actions_, copies_.back().get(), descriptor.there);
      highest = std::max(highest, descriptor.there);
    }
    posix_spawn_file_actions_addclosefrom_np(&actions_, highest + 1);
    if (!command.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions_, command.folder.c_str());
    // What this process ignores its children do not.
    sigset_t usual;
    ::sigemptyset(&usual);
    for (const int signal : {SIGPIPE, SIGXFSZ}) ::sigaddset(&usual, signal);
    posix_spawnattr_setsigdefault(&attributes_, &usual);
    const int group = command.own_group ? POSIX_SPAWN_SETPGROUP : 0;
    posix_spawnattr_setflags(&attributes_, static_cast<short>(POSIX_SPAWN_SETSIGDEF | group));
    return Ok{};
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  std::vector<UniqueFd> copies_;
};

ExitStatus exit_status(int status) {
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

/// Feeds a command's input and gathers its output, side by side, so that neither waits for the
/// other.
class Conversation {
 public:
  Conversation(UniqueFd stream, UniqueFd errors, std::string_view input, std::size_t max_output_bytes)
      : stream_(std::move(stream)), errors_(std::move(errors)), input_(input), most_(max_output_bytes) {}

  /// Until both of the command's outputs are closed, or `deadline_ns` by the steady clock.
  Status run(std::int64_t deadline_ns, const CancelToken& cancel, Completed& completed) {
    if (input_.empty()) ::shutdown(stream_.get(), SHUT_WR);
    while (stream_.valid() || errors_.valid()) {
      const std::int64_t left_ms = (deadline_ns - steady_clock().now_ns()) / 1'000'000;
      if (left_ms <= 0) return Error{ErrorCode::kTimeout, "the command did not end in time"};
      if (cancel.cancelled()) return Error{ErrorCode::kCancelled, "the command was cancelled"};
      const short wanted = static_cast<short>(POLLIN | (input_.empty() ? 0 : POLLOUT));
      std::array<pollfd, 2> waiting{{{stream_.get(), wanted, 0}, {errors_.get(), POLLIN, 0}}};
      const int ready =
          ::poll(waiting.data(), waiting.size(), static_cast<int>(std::min(left_ms, kCancelMs)));
      if (ready < 0 && errno != EINTR) return errno_error("poll");
      if (ready <= 0) continue;
      if (waiting[0].revents & POLLOUT) send_some();
      if (waiting[0].revents & (POLLIN | POLLHUP | POLLERR)) gather(stream_, completed.output, most_ + 1);
      if (waiting[1].revents) gather(errors_, completed.errors, kMaxErrorBytes);
      if (completed.output.size() > most_)
        return invalid(fmt::format("the command wrote more than {} bytes", most_));
    }
    return Ok{};
  }

 private:
  void send_some() {
    const ssize_t sent = ::send(stream_.get(), input_.data(), input_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) input_.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EINTR && errno != EAGAIN) input_ = {};  // it reads no more
    if (input_.empty()) ::shutdown(stream_.get(), SHUT_WR);
  }

  static void gather(UniqueFd& from, std::string& text, std::size_t most) {
    std::array<char, 1 << 16> buffer;
    const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
    if (got > 0) text.append(buffer.data(), std::min(static_cast<std::size_t>(got), most - text.size()));
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) from.reset();
  }

  UniqueFd stream_;
  UniqueFd errors_;
  std::string_view input_;
  std::size_t most_;
};

}  // namespace

std::string ExitStatus::to_string() const {
  if (signal != 0) return fmt::format("killed by {}", ::strsignal(signal));
  return fmt::format("exit code {}", code);
}

Result<Process> Process::start(const Command& command, std::span<const Descriptor> descriptors) {
  SpawnActions spawn;
  LATHE_CHECK_OK(spawn.set(command, descriptors));
  const std::vector<char*> argv = pointers_to(command.argv);
  std::vector<char*> environment;
  if (command.environment) environment = pointers_to(*command.environment);
  pid_t pid = -1;
  const int failed = ::posix_spawnp(&pid, argv[0], spawn.actions(), spawn.attributes(), argv.data(),
                                    command.environment ? environment.data() : environ);
  if (failed != 0) {
    std::string message = fmt::format("cannot start '{}': {}", command.argv[0], std::strerror(failed));
    return failed == EAGAIN ? no_more_processes(std::move(message))
                            : Error{ErrorCode::kUnavailable, std::move(message)};
  }
  return Process(pid);
}

void Process::kill() {
  if (pid_ < 0) return;
  begin_kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void Process::begin_kill() {
  if (pid_ >= 0) ::kill(pid_, SIGKILL);
}

bool Process::has_ended() {
  if (pid_ >= 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ < 0;
}

Result<ExitStatus> Process::wait(double timeout_seconds) {
  if (pid_ < 0) return Error{ErrorCode::kInternal, "the process was reaped already"};
  const UniqueFd watched(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!watched.valid()) return errno_error("cannot watch a child process");
  const std::int64_t deadline_ns = steady_clock().now_ns() + static_cast<std::int64_t>(timeout_seconds * 1e9);
  for (;;) {
    const std::int64_t left_ms =
        std::max<std::int64_t>(0, (deadline_ns - steady_clock().now_ns()) / 1'000'000);
    pollfd waiting{watched.get(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left_ms, 1'000'000)));
    int status = 0;
    if (ready > 0 && ::waitpid(pid_, &status, 0) == pid_) {
      pid_ = -1;
      return exit_status(status);
    }
    if (ready < 0 && errno != EINTR) return errno_error("poll");
    if (left_ms == 0) return Error{ErrorCode::kTimeout, "the process did not end in time"};
  }
}

Result<Completed> run_command(const Command& command, std::string_view input, double timeout_seconds,
                              std::size_t max_output_bytes, const CancelToken& cancel) {
  const std::int64_t begin_ns = steady_clock().now_ns();
  int stream[2], errors[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) != 0) return errno_error("socketpair");
  UniqueFd stream_here(stream[0]), stream_there(stream[1]);
  if (::pipe2(errors, O_CLOEXEC) != 0) return errno_error("cannot make a pipe");
  UniqueFd errors_here(errors[0]), errors_there(errors[1]);
  const std::array<Process::Descriptor, 3> streams{
      {{stream_there.get(), 0}, {stream_there.get(), 1}, {errors_there.get(), 2}}};
  LATHE_TRY(Process process, Process::start(command, streams));
  stream_there.reset();
  errors_there.reset();
  Completed completed;
  const std::int64_t deadline_ns = begin_ns + static_cast<std::int64_t>(timeout_seconds * 1e9);
  LATHE_CHECK_OK(Conversation(std::move(stream_here), std::move(errors_here), input, max_output_bytes)
                     .run(deadline_ns, cancel, completed));
  LATHE_TRY(completed.status, process.wait(timeout_seconds - seconds_since(begin_ns)));
  return completed;
}

std::string take_variable(const char* name) {
  char* const value = std::getenv(name);
  if (!value) return "";
  std::string taken = value;
  ::explicit_bzero(value, taken.size());
  ::unsetenv(name);
  return taken;
}

}  // namespace lathe
