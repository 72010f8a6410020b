#include "conformance/naive_grader.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/clock.h"
#include "base/fd.h"
#include "conformance/naive_process.h"
#include "sandbox/jail.h"

namespace lathe {
namespace {

constexpr std::string_view kNoJail = "JAIL ";

JailSpec jail() {
  JailSpec spec;
  spec.readable = {"/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/proc", "/sys/devices/system/cpu"};
  spec.max_address_bytes = std::uint64_t{8} << 30;
  spec.max_cpu_seconds = 5;
  spec.max_file_bytes = 256 << 20;
  return spec;
}

Status confine() {
  LATHE_CHECK_OK(restrict_resources(jail()));
  LATHE_CHECK_OK(restrict_files(jail()));
  return deny_dangerous_calls();
}

[[noreturn]] void say(const std::string& line) {
  const std::string text = line + "\n";
  ::_exit(::write(STDOUT_FILENO, text.data(), text.size()) < 0 ? 1 : 0);
}

/// Forks `depth` times; the last child goes on, the others wait for theirs. The first is the namespace's
/// init, which signals from inside cannot kill.
void nest(int depth) {
  for (int i = 0; i < depth; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      continue;
    }
    int status = 0;
    while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    ::_exit(0);
  }
}

[[noreturn]] void run_grader(const NaiveJob& job, int out_fd) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(out_fd, STDOUT_FILENO);
  ::close_range(3, ~0u, 0);
  if (const Status entered = enter_namespaces(); !entered.ok())
    say(std::string(kNoJail) + entered.error().message);
  nest(1);
  if (const Status confined = confine(); !confined.ok()) say(std::string(kNoJail) + confined.error().message);
  nest(2);
  say(grade_in_this_process(job));
}

/// The first line that somebody wrote: the grader does not ask who.
std::string first_line(int fd, double timeout_seconds) {
  const std::int64_t deadline_ns = steady_clock().now_ns() + static_cast<std::int64_t>(timeout_seconds * 1e9);
  std::string text;
  while (text.find('\n') == std::string::npos) {
    const auto left_ms = (deadline_ns - steady_clock().now_ns()) / 1'000'000;
    pollfd waiting{fd, POLLIN, 0};
    if (left_ms <= 0 || ::poll(&waiting, 1, static_cast<int>(left_ms)) == 0) return "HUNG";
    char buffer[256];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) return "DIED";
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text.substr(0, text.find('\n'));
}

NaiveAnswer grade_naively(const NaiveJob& job) {
  int ends[2];
  if (::pipe(ends) != 0) return {NaiveAnswer::Kind::kUnavailable, 0, "cannot make a pipe"};
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return {NaiveAnswer::Kind::kUnavailable, 0, "cannot fork"};
  if (child == 0) run_grader(job, write_end.get());
  write_end.reset();
  const std::string line = first_line(read_end.get(), job.timeout_seconds);
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (line.starts_with(kNoJail)) return {NaiveAnswer::Kind::kUnavailable, 0, line};
  return read_naive_line(line);
}

Result<std::string> compile_naively(const std::string& source, double timeout_seconds) {
  std::string folder = (std::filesystem::temp_directory_path() / "lathe-naive-XXXXXX").string();
  if (!::mkdtemp(folder.data())) return errno_error("cannot make a temporary folder");
  LATHE_CHECK_OK(write_file_atomically(folder + "/candidate.cpp", source));
  const std::string command = fmt::format(
      "cd '{}' && ulimit -v 4194304 && exec timeout -k 1 {} g++ -O2 -march=native -std=c++20 -shared -fPIC "
      "-w -o out.so candidate.cpp >/dev/null 2>&1",
      folder, timeout_seconds);
  const int status = std::system(command.c_str());
  auto object = status == 0
                    ? read_file(folder + "/out.so")
                    : Result<std::string>(Error{ErrorCode::kTimeout, "the compiler did not end well"});
  std::error_code code;
  std::filesystem::remove_all(folder, code);
  return object;
}

class CpuNaiveGrader final : public NaiveGrader {
 public:
  NaiveAnswer grade(const NaiveJob& job) override { return grade_naively(job); }
  Result<std::string> compile(const std::string& source, double timeout_seconds) override {
    return compile_naively(source, timeout_seconds);
  }
};

}  // namespace

std::unique_ptr<NaiveGrader> make_naive_grader() { return std::make_unique<CpuNaiveGrader>(); }

}  // namespace lathe
