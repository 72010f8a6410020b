#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "sandbox/channel.h"

namespace lathe {

/// A helper program of Lathe's own, spoken to over a channel that it finds on descriptor 3. Its environment
/// is empty but for PATH, its standard streams are /dev/null, all other descriptors are closed, and it dies
/// with this process. Killed and reaped by the destructor.
class HelperProcess {
 public:
  static Result<HelperProcess> spawn(const std::string& program, const std::vector<std::string>& args);
  HelperProcess(HelperProcess&&) noexcept;
  HelperProcess& operator=(HelperProcess&&) noexcept;
  ~HelperProcess();

  const Channel& channel() const { return channel_; }
  pid_t pid() const { return pid_; }
  void kill();
  /// Does not wait: has_ended() tells when it is reaped.
  void begin_kill();
  bool has_ended();

 private:
  HelperProcess(pid_t pid, Channel channel) : pid_(pid), channel_(std::move(channel)) {}
  pid_t pid_ = -1;
  Channel channel_;
};

inline constexpr int kHelperChannelFd = 3;

/// For a helper: runs `serve` as the first process of new namespaces, a new PID namespace among them, and
/// dies with it. Its exit code, or 2 where namespaces cannot be entered.
int serve_in_namespaces(const std::function<int()>& serve);

/// "<folder of the running program>/<name>".
Result<std::string> sibling_program(const std::string& name);

}  // namespace lathe
