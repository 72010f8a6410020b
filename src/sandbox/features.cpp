#include <linux/landlock.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/fd.h"
#include "sandbox/jail.h"

namespace lathe {
namespace {

/// Runs `attempt` in a child; the child's message comes back when it fails.
SandboxFeature try_feature(std::string name, std::string cost, const std::function<Status()>& attempt) {
  SandboxFeature feature{std::move(name), false, {}};
  int ends[2];
  if (::pipe(ends) != 0) return feature.detail = "cannot make a pipe", feature;
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const Status status = attempt();
    // After a lock-down only the exit is allowed, so success sends no message.
    if (status.ok()) ::syscall(SYS_exit_group, 0);
    const Error& error = status.error();
    const std::string text = error.message + (error.hint.empty() ? "" : "; " + error.hint);
    ::_exit(::write(write_end.get(), text.data(), text.size()) < 0 ? 2 : 1);
  }
  write_end.reset();
  char buffer[1024];
  const ssize_t got = ::read(read_end.get(), buffer, sizeof buffer);
  int status = 0;
  ::waitpid(child, &status, 0);
  feature.available = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!feature.available)
    feature.detail =
        std::string(buffer, got > 0 ? static_cast<std::size_t>(got) : 0) + "; without it " + cost;
  return feature;
}

}  // namespace

std::vector<SandboxFeature> probe_sandbox() {
  std::vector<SandboxFeature> features;
  auto namespaces =
      try_feature("namespaces", "a candidate sees the host's processes and the names of its files",
                  [] { return enter_namespaces({.visible = {"/usr"}}); });
  namespaces.dispensable = true;
  features.push_back(std::move(namespaces));
  auto landlock = try_feature("Landlock", "a compile could read any file of this user",
                              [] { return restrict_files({}); });
  if (landlock.available)
    landlock.detail = "ABI " + std::to_string(::syscall(SYS_landlock_create_ruleset, nullptr, 0,
                                                        LANDLOCK_CREATE_RULESET_VERSION));
  features.push_back(std::move(landlock));
  features.push_back(try_feature("seccomp deny list", "jailed code could open sockets",
                                 [] { return deny_dangerous_calls(); }));
  features.push_back(try_feature("seccomp lock-down", "no candidate can be run safely", [] {
    const auto lock_down = LockDown::prepare();
    return lock_down.ok() ? lock_down->apply() : Status(lock_down.error());
  }));
  return features;
}

}  // namespace lathe
