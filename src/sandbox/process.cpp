#include "sandbox/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/guard.h"

namespace lathe {

Result<HelperProcess> HelperProcess::spawn(const std::string& program, const std::vector<std::string>& args,
                                           const std::vector<std::string>& environment) {
  LATHE_TRY(auto ends, Channel::make_pair());
  int error_pipe[2];
  if (::pipe2(error_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return errno_error("cannot make a pipe");
  UniqueFd errors(error_pipe[0]);
  const UniqueFd helper_errors(error_pipe[1]);
  // In a group of its own: on Ctrl-C at the terminal Lathe ends its helpers itself.
  Command command{.argv = {program},
                  .environment = std::vector<std::string>{"PATH=/usr/local/bin:/usr/bin:/bin"},
                  .own_group = true};
  command.environment->insert(command.environment->end(), environment.begin(), environment.end());
  command.argv.insert(command.argv.end(), args.begin(), args.end());
  const std::array<Process::Descriptor, 2> descriptors{
      {{helper_errors.get(), STDERR_FILENO}, {ends.second.fd(), kHelperChannelFd}}};
  auto process = Process::start(command, descriptors);
  if (!process.ok()) {
    Error error = std::move(process).error();
    if (error.hint.empty()) error.hint = "build or install Lathe whole: its helper programs stand beside it";
    return error;
  }
  return HelperProcess(program, *std::move(process),
                       Channel(UniqueFd(ends.first.release()), std::move(errors)));
}

Result<Frame> HelperProcess::first_frame(int timeout_ms) {
  constexpr double kSecondsToEnd = 2;  // of a process whose channel is closed already
  auto frame = channel_.receive(timeout_ms);
  if (frame.ok() || frame.error().code != ErrorCode::kIo || !frame.error().hint.empty()) return frame;
  const auto ended = process_.wait(kSecondsToEnd);
  if (!ended.ok()) return frame;
  return Error{ErrorCode::kIo,
               fmt::format("{} ended before it could answer: {}",
                           std::filesystem::path(program_).filename().string(), ended->to_string())};
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
  const std::string text = error.message + (error.hint.empty() ? "" : "; " + error.hint);
  return ::write(STDERR_FILENO, text.data(), text.size()) < 0 ? 1 : 2;
}

void close_standard_error() {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0 || ::dup2(nowhere, STDERR_FILENO) < 0) ::close(STDERR_FILENO);
  if (nowhere >= 0 && nowhere != STDERR_FILENO) ::close(nowhere);
}

namespace {

/// Inherited by all that is started from here.
void let_system_end_first() {
  const UniqueFd score(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  constexpr std::string_view kMost = "1000";
  if (score.valid() && ::write(score.get(), kMost.data(), kMost.size()) < 0) return;
}

}  // namespace

int serve_in_namespaces(const std::function<int()>& serve, const NamespaceSpec& spec, JailKind kind) {
  let_system_end_first();
  const Status entered = kind == JailKind::kFull ? enter_namespaces(spec) : drop_privileges();
  if (!entered.ok()) return fail_to_start(entered.error());
  const pid_t inner = ::fork();
  if (inner < 0)
    return fail_to_start(no_more_processes(std::string("cannot start a process: ") + std::strerror(errno)));
  close_standard_error();
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
