#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "base/fd.h"

namespace lathe {

/// A child process whose standard input and output are one socket, killed when it goes out of scope.
class ChildProcess {
 public:
  /// `argv[0]` is looked up in PATH. Standard error goes to the file `stderr_path`.
  static Result<ChildProcess> start(const std::vector<std::string>& argv, const std::string& stderr_path);
  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), socket_(std::move(other.socket_)) {}
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  /// Sends all bytes, then ends the child's input. Errors: kTimeout, kIo if the child has gone.
  Status send(std::span<const std::byte> bytes, double timeout_seconds);
  Status end_input();
  /// Fills the buffer. Errors: kTimeout, kIo if the child ends earlier.
  Status receive(std::span<std::byte> bytes, double timeout_seconds);
  /// Waits for the end. Errors: kTimeout, kInvalid if it failed or was killed.
  Status wait(double timeout_seconds);

 private:
  ChildProcess(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_ = -1;
  UniqueFd socket_;
};

}  // namespace lathe
