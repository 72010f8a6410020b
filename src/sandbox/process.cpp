#include "sandbox/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "sandbox/jail.h"

namespace lathe {

Result<HelperProcess> HelperProcess::spawn(const std::string& program, const std::vector<std::string>& args) {
  LATHE_TRY(auto ends, Channel::make_pair());
  int error_pipe[2];
  if (::pipe2(error_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return errno_error("cannot make a pipe");
  UniqueFd errors(error_pipe[0]);
  const UniqueFd helper_errors(error_pipe[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, helper_errors.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends.second.fd(), kHelperChannelFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, kHelperChannelFd + 1);
  // A Ctrl-C at the terminal is for Lathe, which ends its helpers itself: they get their own process group.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);

  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
  char* environment[] = {path, nullptr};
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environment);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0)
    return Error{ErrorCode::kUnavailable, "cannot start '" + program + "': " + std::strerror(failed),
                 "build or install Lathe whole: its helper programs stand beside it"};
  return HelperProcess(pid, Channel(UniqueFd(ends.first.release()), std::move(errors)));
}

HelperProcess::HelperProcess(HelperProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), channel_(std::move(other.channel_)) {}

HelperProcess& HelperProcess::operator=(HelperProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(channel_, other.channel_);
  return *this;
}

HelperProcess::~HelperProcess() { kill(); }

void HelperProcess::kill() {
  if (pid_ < 0) return;
  begin_kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void HelperProcess::begin_kill() {
  if (pid_ >= 0) ::kill(pid_, SIGKILL);
}

bool HelperProcess::has_ended() {
  if (pid_ >= 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ < 0;
}

Result<std::string> sibling_program(const std::string& name) {
  std::error_code code;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code)
    return Error{ErrorCode::kUnavailable, "cannot find the running program's folder: " + code.message(),
                 "/proc must be mounted"};
  return (self.parent_path() / name).string();
}

int fail_to_start(const Error& error) {
  const std::string& text = error.message;
  return ::write(STDERR_FILENO, text.data(), text.size()) < 0 ? 1 : 2;
}

void close_standard_error() {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0 || ::dup2(nowhere, STDERR_FILENO) < 0) ::close(STDERR_FILENO);
  if (nowhere >= 0 && nowhere != STDERR_FILENO) ::close(nowhere);
}

int serve_in_namespaces(const std::function<int()>& serve) {
  if (const Status entered = enter_namespaces(); !entered.ok()) return fail_to_start(entered.error());
  close_standard_error();
  const pid_t inner = ::fork();
  if (inner < 0) return 2;
  if (inner == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(serve());
  }
  ::close(kHelperChannelFd);
  int status = 0;
  ::waitpid(inner, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace lathe
