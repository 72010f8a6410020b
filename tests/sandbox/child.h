#pragma once

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

namespace lathe {

/// How a child ended: its exit code, or minus the signal that killed it.
inline int outcome_of_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::syscall(SYS_exit_group, body());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace lathe
