#pragma once

#include "base/result.h"

namespace lathe::cli {

/// Exit codes of every verb (docs/cli.md).
enum ExitCode : int {
  kSuccess = 0,
  kNothingPassed = 1,  ///< the work was done, and no candidate passed
  kUsage = 2,          ///< wrong arguments
  kBadInput = 3,       ///< a task, candidate or run that cannot be used
  kMachine = 4,        ///< this machine lacks something, or an I/O error
  kFault = 70,         ///< a fault of Lathe itself
  kInterrupted = 130,  ///< Ctrl-C: what was done is kept
};

/// The exit code that fits an error.
int exit_code(const Error& error);
/// Prints the error to standard error and gives its exit code.
int fail(const Error& error);

}  // namespace lathe::cli
