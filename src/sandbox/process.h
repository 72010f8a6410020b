#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/process.h"
#include "sandbox/channel.h"
#include "sandbox/jail.h"

namespace lathe {

/// One of Lathe's own helper programs, connected by a channel on its descriptor 3. Its environment
/// contains only PATH and what it is given ("NAME=value"), its standard streams are /dev/null, and
/// all other descriptors are closed. It ends with this process, because the channel closes. Until
/// the first frame its standard error is a pipe, so that the channel's errors can quote the
/// loader's message about a missing library. Killed and reaped by the destructor.
class HelperProcess {
 public:
  static Result<HelperProcess> spawn(const std::string& program, const std::vector<std::string>& args,
                                     const std::vector<std::string>& environment = {});
  const Channel& channel() const { return channel_; }
  /// Its first frame. The error of one that ended instead says how.
  Result<Frame> first_frame(int timeout_ms);
  pid_t pid() const { return process_.pid(); }
  void kill() { process_.kill(); }
  /// Sends SIGKILL without waiting; has_ended() tells when the process is gone.
  void begin_kill() { process_.begin_kill(); }
  bool has_ended() { return process_.has_ended(); }

 private:
  HelperProcess(std::string program, Process process, Channel channel)
      : program_(std::move(program)), process_(std::move(process)), channel_(std::move(channel)) {}
  std::string program_;
  Process process_;
  Channel channel_;
};

inline constexpr int kHelperChannelFd = 3;

/// For a helper that cannot start: reports why to its parent. Returns the exit code for main().
int fail_to_start(const Error& error);

/// For a helper that has started: redirects its standard error to /dev/null before it handles
/// untrusted data.
void close_standard_error();

/// For a helper: runs `serve` as the first process of new namespaces, including a PID namespace,
/// with standard error closed. Returns its exit code, or 2 if namespaces cannot be entered or no
/// process can be started. A reduced jail has none: there it is only a process of nobody, where
/// that can be. Where memory runs out, the system ends the processes of jails before any others.
int serve_in_namespaces(const std::function<int()>& serve, const NamespaceSpec& spec = {},
                        JailKind kind = JailKind::kFull);

/// "<folder of the running program>/<name>".
Result<std::string> sibling_program(const std::string& name);

}  // namespace lathe
