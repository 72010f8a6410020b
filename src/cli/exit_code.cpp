#include "cli/exit_code.h"

#include "cli/console.h"

namespace lathe::cli {

int exit_code(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kNotFound:
      return kBadInput;
    case ErrorCode::kCancelled:
      return kInterrupted;
    case ErrorCode::kInternal:
      return kFault;
    default:
      return kMachine;
  }
}

int fail(const Error& error) {
  print_error(error);
  return exit_code(error);
}

}  // namespace lathe::cli
