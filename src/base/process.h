#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/fd.h"

namespace lathe {

/// A program to start.
struct Command {
  std::vector<std::string> argv;  ///< argv[0] is looked up in PATH unless it contains a slash
  std::optional<std::vector<std::string>> environment = {};  ///< "NAME=value"; absent: inherited
  std::string folder = {};  ///< where it runs; empty: this process's working directory
  bool own_group = false;   ///< its own process group, which Ctrl-C does not reach
};

/// How a process ended.
struct ExitStatus {
  int code = 0;    ///< meaningful where signal is 0
  int signal = 0;  ///< the signal that killed it

  bool ok() const { return code == 0 && signal == 0; }
  /// "exit code 3" or "killed by Segmentation fault".
  std::string to_string() const;
};

/// A child process, killed and reaped by the destructor. Not thread-safe.
class Process {
 public:
  struct Descriptor {
    int here;   ///< in this process
    int there;  ///< in the child
  };

  /// The child inherits the listed descriptors and no others; standard streams that are not listed
  /// are /dev/null. Errors: kUnavailable, with the program's name.
  static Result<Process> start(const Command& command, std::span<const Descriptor> descriptors);
  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Process& operator=(Process&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~Process() { kill(); }

  pid_t pid() const { return pid_; }
  void kill();
  /// Sends the signal without waiting: has_ended() tells when the process is gone, and reaps it.
  void begin_kill();
  bool has_ended();
  /// Reaps the process. Errors: kTimeout, after which it still runs.
  Result<ExitStatus> wait(double timeout_seconds);

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
};

struct Completed {
  ExitStatus status;
  std::string output;  ///< all of standard output
  std::string errors;  ///< the first 64 KiB of standard error
};

/// Runs a trusted command to its end with `input` as its standard input, and kills it at the time
/// limit, or once `cancel` is raised. Errors: kUnavailable if it cannot be started, kTimeout,
/// kCancelled, kInvalid beyond `max_output_bytes`. A non-zero exit code is no error here.
Result<Completed> run_command(const Command& command, std::string_view input, double timeout_seconds,
                              std::size_t max_output_bytes = std::size_t{1} << 20,
                              const CancelToken& cancel = {});

/// A secret of the environment: wiped where the kernel shows it (/proc/PID/environ), and forgotten.
/// Empty where there is none.
std::string take_variable(const char* name);

}  // namespace lathe
