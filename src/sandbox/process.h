#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/process.h"
#include "sandbox/channel.h"

namespace lathe {

/// A helper program of Lathe's own, spoken to over a channel that it finds on descriptor 3. Its environment
/// is empty but for PATH, its standard streams are /dev/null, all other descriptors are closed, and it dies
/// with this process. Until its first frame standard error is a pipe, so that the channel's errors can quote
/// what the loader says of a missing library. Killed and reaped by the destructor.
class HelperProcess {
 public:
  static Result<HelperProcess> spawn(const std::string& program, const std::vector<std::string>& args);
  const Channel& channel() const { return channel_; }
  pid_t pid() const { return process_.pid(); }
  void kill() { process_.kill(); }
  /// Does not wait: has_ended() tells when it is reaped.
  void begin_kill() { process_.begin_kill(); }
  bool has_ended() { return process_.has_ended(); }

 private:
  HelperProcess(Process process, Channel channel)
      : process_(std::move(process)), channel_(std::move(channel)) {}
  Process process_;
  Channel channel_;
};

inline constexpr int kHelperChannelFd = 3;

/// For a helper that cannot start: tells the spawner why. Returns the exit code for main().
int fail_to_start(const Error& error);

/// For a helper that has started, before it serves anything untrusted: its standard error is /dev/null.
void close_standard_error();

/// For a helper: runs `serve` as the first process of new namespaces, a new PID namespace among them, and
/// dies with it; standard error is closed before. Its exit code, or 2 where namespaces cannot be entered.
int serve_in_namespaces(const std::function<int()>& serve);

/// "<folder of the running program>/<name>".
Result<std::string> sibling_program(const std::string& name);

}  // namespace lathe
